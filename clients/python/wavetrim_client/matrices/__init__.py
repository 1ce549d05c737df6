"""Matrices: what a caller may give, and how they are sent and received.

- Sending: `operands` finds element type (`element_types`) and shapes, `sources` reads what a caller
  gives as a matrix, `bodies` sends it as a .npy file (`npy`).
- Receiving: `downloads` receives a .npy file into an array or a `partial_file`.
- `stored` has the calls about matrices that the service stores.
"""
