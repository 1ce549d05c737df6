"""The experiments of the reference programs, on this machine.

Each module repeats one program and reports its figures next to those of the program's documents
(`reference`). Its `run_experiment` is a command of `wavetrim reproduce`: its arguments and its
docstring are those of the command. Measuring needs a GPU, the report does not. `measurement` times
products on the GPU, `operands` draws their matrices.
"""
