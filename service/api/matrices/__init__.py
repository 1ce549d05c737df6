"""Stored matrices: `matrices` has the routes.

- `upload` stores a body, or compares it with what was stored under its Idempotency-Key.
- `download` sends from the arena or from the file, whole or in part, by the request's conditions.
"""
