"""What commands print.

`display` has tables, JSON and bars of progress; `units` writes numbers as people read them; `plot`
draws a plan's curves, `timeline` its steps, `comparison` a product beside NumPy's.
"""
