"""How a persistent launch divides its tiles: whole ones, and a last wave split along K.

Pure. In units of one step, which is a tile's BLOCK_K of K on one multiprocessor.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Final

FIX_UP_STEPS: Final = 5
"""What a split costs beside its share of the work: partial sums go through memory. On an H200,
tiles of 128x256x16: 3 to 7 steps beyond even shares at 1024³…8192³, once 12."""


@dataclass(frozen=True, slots=True)
class Division:
    """Who computes what.

    Attributes:
        blocks: Blocks of the launch, one a multiprocessor.
        shared_tiles: Tiles whose steps are dealt out evenly to all blocks, wherever a block's share
            begins and ends; the other tiles are whole.
        steps: Steps that the slowest block should take, what a split costs included.
    """

    blocks: int
    shared_tiles: int
    steps: int


@lru_cache(maxsize=1024)
def divide_tiles(tiles: int, steps_k: int, sms: int) -> Division:
    """The division that should take the fewest steps.

    Args:
        tiles: Tiles of C.
        steps_k: Steps of each.
        sms: Multiprocessors.
    """
    waves, rest = divmod(tiles, sms)
    plain = Division(min(tiles, sms), 0, (waves + (rest > 0)) * steps_k)
    if rest == 0:
        return plain
    # Who owns a tile adds up the partial sums of all blocks on it: still more blocks take longer.
    blocks = sms if waves else min(sms, tiles * max(1, isqrt(steps_k)))
    split_steps = waves * steps_k + -(-rest * steps_k // blocks) + FIX_UP_STEPS
    split = Division(blocks, rest, split_steps)
    return min(plain, split, key=lambda division: division.steps)
