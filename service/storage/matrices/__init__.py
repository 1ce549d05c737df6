"""Stored matrices: from the first byte to the row that says where they are.

1. `npy` reads and writes the header of a .npy file, which says how a matrix's elements lie.
   `intake` receives them, also for products that are not stored, into memory that grows with the
   bytes that have come, not with those that were announced: in the arena, or in a mapped file.
2. A `draft` is received, or computed, and written to disk meanwhile. Then `rows` adds its row. It
   is durable when its upload is answered, and stays in the arena as its own cache.
3. `matrices` finds, lists and removes matrices; `use` knows which jobs use them. `matrix` describes
   one, and compares its file with its checksum before it is used.
4. An upload's Idempotency-Key (`upload_keys`) is committed with its matrix and removed with it.
   `stored_bytes` counts all matrices, and those that are under way, against quota and disk.
"""
