"""Files of matrices on disk: written once, whole or not at all.

- `disk_writer` is the thread that writes matrices, and yields to the database's commits.
  `file_write` writes one file, with a `checksum`.
- `new_file` makes files, and makes them safe against a power cut.
- `disk_space` says what the file system has left.
"""
