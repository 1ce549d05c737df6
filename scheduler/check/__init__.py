"""Verifies a product without computing all of it again.

`checked` computes and checks a product. `verify` compares `checksums` (of floats) or
`integer_checksums`; `real_parts` reads a complex product as one of floats. `suspects` selects
checksums that rounding does not explain. `elements` compares the elements under them with a more
exact product, and `rounding` says how much they may differ.

While a GPU computes, idle cores compute the checksums of the factors (`cpu/block_sums.py`); those
of the product follow. Wrong rows are computed again on the other device, after the engine has
withdrawn its report that they are final. docs/api.md says what is promised.
"""
