"""Stored matrices: from the first byte to the row that says where they are.

1. `kept` receives a matrix, `draft` lets one be computed, row by row; `npy` reads and writes the
   head of its file.
2. `matrix_files` names the file when it is whole, `publication` adds its row (`matrix`). It is
   durable when its upload is answered, and stays in the arena as its own cache (`residents`).
3. `matrices` finds and removes them, `listing` has their list. `file_checks` looks at a file before
   it is believed.
4. An upload's Idempotency-Key (`upload_keys`) is committed with its matrix and goes with it.
   `stored_bytes` counts against quotas.
"""
