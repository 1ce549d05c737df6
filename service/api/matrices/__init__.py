"""Stored matrices: `matrices` has the routes, `matrix_body` takes and sends the bytes.

- Up: `upload` stores a body, or compares it with what was stored under its Idempotency-Key;
  `body_file` writes elements into a file where the arena has no place.
- Down: `download` sends from the arena or from the file, whole or in `ranges`.
"""
