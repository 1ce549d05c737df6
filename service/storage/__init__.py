"""Storage: the matrices, their memory and files, the database and the data folder.

In the order in which bytes pass:

- `memory/`: memory for a body, a product or a caller: in the arena, or in a mapped file.
- `disk/`: one thread writes memory to files, each whole or not at all.
- `matrices/`: a stored matrix: received or computed, published as a row, listed, checked, removed.
- `database/`: the rows, their tables, and transactions that lose nothing.
- `folder/`: the data folder: who owns it, what a start removes from it, how it is copied.

`lock_file` keeps other services out of a folder and of SQLite's file. `errors` are the refusals.
"""
