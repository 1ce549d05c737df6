"""Measurements on a GPU: `seconds` of kernels, of `whole_tiles`, and of copies over `links`.

`readings` holds the results.
"""
