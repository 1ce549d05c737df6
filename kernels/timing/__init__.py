"""Measurements on a GPU; `readings` has the classes of most results.

`seconds` times kernels on any product, `whole_tiles` on products of whole tiles for calibration,
`links` copies over one link, and `joint_rates` copies over the links of several GPUs at once.
"""
