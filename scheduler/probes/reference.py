"""Figures that the reference gives for a Tesla M2070."""

from typing import Final

MACHINE: Final = "Tesla M2070"

STRIDED_GBYTES: Final = {1: 106.6, 2: 34.8, 8: 7.9, 16: 4.9, 32: 2.7}
"""1e9 bytes a second of out[i·s] = in[i·s], by the stride s: 16,776,960 floats, blocks of 256."""

OFFSET_GBYTES: Final = {0: 106.6, 1: 72.2, 8: 78.2, 16: 83.4, 32: 105.7}
"""Likewise of out[i + o] = in[i + o], by the offset o."""
