"""Verifies a product without computing all of it again.

`checked` computes and checks a product. `verify` compares `checksums` (of floats) or
`integer_checksums`; `real_parts` makes one of floats of a complex product. `suspects` selects
checksums that rounding does not explain, and `elements` compares the elements under them with a
more exact product.

While a GPU computes, idle cores compute the checksums of the factors (`cpu/block_sums.py`); those
of the product follow. Wrong rows are computed again on the other device, after the engine has
withdrawn its report that they are final. docs/verify.md says what is promised.
"""
