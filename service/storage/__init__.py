"""What is kept: the matrices, their memory and files, the database and the data folder.

In the order in which bytes pass:

- `memory/`: what a body, a product or a caller gets: a place in the `arena/`, or a mapped file
  where that is full.
- `disk/`: one thread writes what lies in memory, each file whole or not at all.
- `matrices/`: a stored matrix: received or computed, published as a row, listed, checked, removed.
- `database/`: the rows, their tables, and transactions that lose nothing.
- `folder/`: the data folder: whose it is, what a start removes from it, how it is copied.

`errors` says what is refused.
"""
