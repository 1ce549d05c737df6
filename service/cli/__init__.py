"""The `wavetrim` command: options, output and exit codes; a file a command in `commands/`.

`start` calls `main`, which finds the command and ends with its exit code (`exits`, `failures`,
`interrupts`). Commands share `options`, `sizes`, `display`, `matrix_files`, `folders`, `comparison`
and `plot`; `machine` is this machine as they see it, `steadiness` whether it is at rest, `jobs` a
service's jobs, `local_service` a service of a command's own. They speak to a service by
`wavetrim-client` (clients/python).

`wavetrim serve` is `foreground`, which listens as `listening` says, with TLS by `tls_server`;
`allocator` tells the C library to keep little freed memory.
"""
