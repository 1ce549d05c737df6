"""The experiments of the reference programs, on this machine.

Each module measures one program's experiment and makes a report, with the figures of the program's
documents beside its own. Measuring needs a GPU, the report does not.
"""
