"""The database: SQLite in the data folder, or a PostgreSQL server.

- `database` opens it, with two kinds of transaction, and one whose commit does not wait for the
  disk. `patience` waits for a server. `sqlite_file` makes sure that SQLite's files are the ones
  that are open, by one connection that keeps the log alive.
- `tables` are this version's; `schema` makes them, or brings older ones up to date by a step of
  `migrations/` each; `expected_tables` says whether a database's are those. `sqlite_copy` keeps a
  copy from before, and copies it while it is written to.
- `ownership`: stores take an owner (None: everybody's). A row that is not the owner's is not found,
  by the same statement as one that never was.
- `api_keys` are rows of their own; `write_record` knows whether the last writes succeeded.
"""
