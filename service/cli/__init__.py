"""The `wavetrim` command: options, output and exit codes; a file a command in `commands/`.

`main` finds the command and ends with its exit code (`exits`, `failures`, `interrupts`). Commands
share `options`, `display`, `matrix_files`, `comparison` and `plot`; `machine` is this machine as
they see it, `jobs` a service's jobs, `local_service` a service of a command's own. They speak to a
service by `wavetrim-client` (clients/python).

`wavetrim serve` is `foreground`, which listens as `listening` says, with TLS by `tls_server`;
`allocator` tells the C library to keep little freed memory.
"""
