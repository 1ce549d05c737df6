"""What things on a GPU take, measured: `seconds` of kernels, of `whole_tiles`, of `links`.

`readings` are the figures that come of it.
"""
