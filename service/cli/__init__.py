"""The `wavetrim` command: options, output and exit codes.

`start` calls `main`, which finds the command, a function in a file of `commands/`, and ends with
its exit code: any error may be raised, and `exits` knows its code and words. A command's docstring
is its help and describes its options (`docstrings`). Commands share `options`, `matrix_files` and
`machine`, this machine's settings and devices; those that speak to a service open a `client`.
`display` prints figures, tables and bars. `local` starts a service and nodes for one command.
"""
