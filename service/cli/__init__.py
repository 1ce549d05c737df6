"""The `wavetrim` command: options, output and exit codes.

`start` calls `main`, which finds the command, a file in `commands/`, and ends with its exit code
(`exits`, `failures`, `interrupts`). Commands share `options`, `sizes`, `matrix_files` and
`folders`; `machine` is this machine as they see it, `steadiness` and `other_load` whether it is at
rest, `jobs` a service's jobs, `local_service` a service of a command's own, `local_cluster` nodes
of its own. They speak to a service by `wavetrim-client` (clients/python). What is printed is made
in `terminal/`.

`server/` is the process that `wavetrim serve` becomes.
"""
