"""The database: SQLite in the data folder, or a PostgreSQL server.

- `database` opens it, with transactions that read, that write, and that write without waiting for
  the disk. SQLite's file it copies, too: before an upgrade, and for backups. `claim` keeps other
  services out of it, and waits for them, or for a server to start.
- `shared_commits` makes changes of jobs and matrices, those of the same moment in one transaction,
  and knows whether the last one succeeded.
- `tables` are those of this version. `schema` makes them, or upgrades older ones by the steps in
  `migrations/`.
"""
