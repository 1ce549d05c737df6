"""Files of matrices on disk: written once, whole or not at all, and counted.

- `disk_writer` is the thread that writes matrices, and yields to the database's commits.
  `file_write` writes one file, with a `checksum`.
- `new_file` makes files, and makes them safe against a power cut.
- `disk_space` counts what matrices take of the disk, including files that still grow, and what the
  file system has left.
"""
