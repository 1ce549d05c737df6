"""The commands, a file for each noun: a function has a command's name and arguments.

Its docstring is its help: a line for each option, and at the end an example, which works as it is
printed. `jobs`, `submit` and `matrices` speak to a running service; `plan`, `multiply`, `devices`,
`calibrate` and `experiments` are about this machine; `serve`, `keys`, `data` and `node` run a
service and keep it; `demo` shows it.
"""
