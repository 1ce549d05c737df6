"""From memory to files: written once, whole or not at all, and counted.

- `disk_writer` is the thread that writes matrices, after the database's commits (`commit_gate`).
- `file_write` is one file on its way, with a `checksum`; `direct_file` writes past the page cache.
- `new_file` gives a file its name once it is whole.
- `disk_room` counts what matrices take of the disk: each step that a file grows by (`growth`), all
  that is published and removed. `free_space` is what the file system has left.
"""
