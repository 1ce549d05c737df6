"""Stored matrices: from the first byte to the row that says where they are.

1. `drafts` receives a matrix, or has it computed, as a `draft` that is written to disk meanwhile;
   `npy` reads and writes the header of its file. Then `drafts` adds its row. It is durable when its
   upload is answered, and stays in the arena as its own cache.
2. `matrices` finds, lists and removes matrices; `use` knows which jobs use them. `matrix` describes
   one, and compares its file with its checksum before it is used.
3. An upload's Idempotency-Key (`upload_keys`) is committed with its matrix and removed with it.
   `stored_bytes` counts all matrices, and those that are under way, against quota and disk.
"""
