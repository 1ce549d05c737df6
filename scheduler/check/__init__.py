"""Proves a product right without computing it again.

`checked` computes and checks; `verify` compares `checksums` (of floats) or `integer_checksums`;
`suspects` picks what stands out, and `elements` compares that with a more exact product.
"""
