"""The `wavetrim` command: options, output and exit codes.

`start` calls `main`, which finds the command, a file in `commands/`, and ends with its exit code
(`exits`, `failures`, `interrupts`). Commands share `options`, `sizes`, `matrix_files` and
`folders`. `machine` has this machine's settings and devices, `steadiness` and `other_load` find
whether it is at rest, `jobs` speaks to a service, through `wavetrim-client` (clients/python).
`local_service` and `local_cluster` start a service and nodes for one command; `cluster_demo` shows
jobs over nodes. `terminal/` makes what is printed.

`server/` is the process that `wavetrim serve` becomes.
"""
