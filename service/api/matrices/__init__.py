"""Stored matrices: `matrices` has the routes, `matrix_body` receives and sends the bytes.

- `upload` stores a body, or compares it with what was stored under its Idempotency-Key;
  `body_file` writes elements into a file if the arena has no place.
- `download` sends from the arena or from the file, whole or in `ranges`, if the `conditions` of the
  request hold.
"""
