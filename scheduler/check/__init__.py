"""Verifies a product without computing all of it again.

`checked` computes a product, has it checked, and computes wrong rows again. `verify` is the check:
it compares `checksums` of the rows (of integers others, which are exact) with those of the
factors. What rounding does not explain is compared by `elements`, which decide.

While a GPU computes, idle cores of the CPU compute the checksums of the factors; those of the
product follow. docs/api.md says what is promised.
"""
