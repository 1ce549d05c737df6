"""What commands print.

`display` has tables and progress bars; `units` formats numbers; `plot` draws a plan's curves,
`timeline` its steps; `comparison` compares a product with NumPy's.
"""
