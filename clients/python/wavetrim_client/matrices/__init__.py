"""Matrices as callers have them, and as they are sent and received.

- Out: `operands` finds element types (`element_types`) and shapes, `sources` what a caller may name
  as a matrix; `bodies` sends it, as the .npy file that it would be (`npy`).
- In: `downloads` receives a .npy file, into an array or into a `partial_file`.

`stored` are the calls about those that the service keeps.
"""
