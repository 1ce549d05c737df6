"""Proves a product right without computing it again.

`checked` computes and checks; `verify` compares `checksums` (of floats) or `integer_checksums`;
`suspects` picks what stands out, and `elements` compares that with a more exact product.

While a GPU computes, the checksums of the factors are found on idle cores (`cpu/block_sums.py`);
those of the product follow. Rows that are wrong are computed again on the other device, after the
engine has taken back that they were final. docs/verify.md says what is promised.
"""
