"""What is kept: the data folder, the database, the matrices and their .npy files.

Memory for what comes: `room` gives a place in the `arena/`, or a mapped file where that is full.
`intake` and `growth` let it grow with the bytes that have come, not with those that were announced.
`leases` are memory that callers on this host map themselves.

A matrix on its way to the disk: `kept` receives it, `draft` lets it be computed; `npy` reads and
writes its header; `disk_writer` writes it meanwhile (`direct_file`, past the page cache, and
`commit_gate`, after the database's commits), with a `checksum`; `matrix_files` and `new_file` name
it when it is whole; `publication` adds its row. It is durable when its upload is answered, and
stays in the arena as its own cache (`residents`).

What is known of it: `matrices` and `listing` (`matrix`), `file_checks`, `upload_keys`. An upload's
Idempotency-Key is committed with its matrix and goes with it. Stores take an `owner` (None:
everybody's): a row that is not the owner's is not found, by the same statement as one that never
was (`ownership`).

What limits it: `disk_room` counts what matrices take of the disk, each step that a file grows by
and all that is published and removed; `free_space` keeps a reserve for the database, `stored_bytes`
counts against quotas.

The database: `database` (two kinds of transaction, and one whose commit does not wait for the
disk; `patience` waits for a server), `tables`, `schema` and its `migrations/`, `api_keys`,
`write_record`. `sqlite_copy` copies it while it is written to. `sqlite_file` makes sure that
SQLite's files are the ones that are open, by one connection that keeps the log alive. The folder:
`data_folder` claims it, for one service and its user alone (umask 077). It shares an id with its
database (`identity`). A start (`sweep`, `temporary`) removes only what is proved to be unfinished;
a whole file that the database does not know goes to lost/ (`lost`), and `adoption` takes it in
again. `backup` copies all of it.
"""
