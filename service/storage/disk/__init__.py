"""Files of matrices on disk: written once, whole or not at all.

- `disk_writer` is the thread that writes matrices, each to a file with a checksum, and yields to
  the database's commits.
- `files` finds space for files, makes them safe against a power cut, and checks them.
- `unsynced_files` are the small ones: their bytes are committed with their rows, and many share a
  sync. A start writes anew what a power cut has undone.
"""
