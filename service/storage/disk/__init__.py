"""Files of matrices on disk: written once, whole or not at all, and counted.

- `disk_writer` is the thread that writes matrices, and yields to the database's commits
  (`commit_gate`).
- `file_write` writes one file, with a `checksum`; `direct_file` writes past the page cache.
- `new_file` makes files, and makes them safe against a power cut.
- `disk_room` counts what matrices take of the disk, including files that still grow (`growth`).
  `free_space` is what the file system has left.
"""
