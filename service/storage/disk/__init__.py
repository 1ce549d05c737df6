"""From memory to files: written once, whole or not at all, and counted.

- `disk_writer` is the thread that writes matrices, after the database's commits (`commit_gate`).
- `direct_file` is the file it writes, past the page cache, with a `checksum`.
- `new_file` gives a file its name once it is whole.
- `disk_room` counts what matrices take of the disk: each step that a file grows by (`growth`), all
  that is published and removed. `free_space` is what the file system has left.
"""
