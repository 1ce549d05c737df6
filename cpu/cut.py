"""A product cut into blocks for Python threads."""

import numpy as np

from wavetrim.cpu.blocks import Block, cut_blocks, cut_depth
from wavetrim.cpu.products import (
    Matrix,
    Product,
    combine,
    form_product,
    multiply_block,
    scale,
)
from wavetrim.native.element_types import BLAS_DTYPES, find_accumulator
from wavetrim.native.tuned import TEMPORARY_ELEMENTS


class CutProduct:
    """Some rows of a product, cut into blocks.

    Args:
        product: The product.
        rows: Its rows to compute.

    Attributes:
        blocks: Blocks to compute once each, in any order; empty where C has no elements.
    """

    blocks: list[Block]

    def __init__(self, product: Product, rows: range) -> None:
        part, threads = slice(rows.start, rows.stop), product.threads
        a, c = product.a[part], product.c[part]
        self._a, self._b, self._c = a, product.b, c
        self._alpha, self._beta = alpha, beta = product.alpha, product.beta
        self._skips_product = alpha == 0 or a.shape[1] == 0
        m, n = c.shape
        k = 1 if self._skips_product else a.shape[1]
        self._partial_sums: dict[int, Matrix] = {}
        self.blocks = []
        if m and n:
            self.blocks = cut_depth(m, n, k, threads=threads)
            self._sums_parts = bool(self.blocks)
            if not self.blocks:
                direct = beta == 0 and c.dtype in BLAS_DTYPES
                most = None if direct else TEMPORARY_ELEMENTS
                self.blocks = cut_blocks(
                    m, n, k, threads=threads, max_elements=most, likely_rows=product.likely_rows
                )

    def compute(self, block: Block) -> None:
        """Compute one block; may be called from any thread."""
        a, b = self._a[block.rows, block.depth], self._b[block.depth, block.columns]
        c = self._c[block.rows, block.columns]
        if self._skips_product:
            scale(c, self._beta)
        elif self._sums_parts:
            self._partial_sums[block.depth_start] = form_product(a, b)
        else:
            multiply_block(a, b, c, alpha=self._alpha, beta=self._beta)

    def finish(self) -> None:
        """Add up the partial sums if K was cut; call it after all blocks are done."""
        if self._partial_sums:
            total = np.zeros(self._c.shape, find_accumulator(self._c.dtype))
            # In the order of K, not of completion, so that results are reproducible bit by bit.
            for start in sorted(self._partial_sums):
                total += self._partial_sums[start]
            with np.errstate(all="ignore"):
                combine(total, self._c, alpha=self._alpha, beta=self._beta)

    def count_rows(self, block: Block) -> float:
        """Rows of C that a block is worth, by its share of the product."""
        share = (block.depth_stop - block.depth_start) / self.blocks[-1].depth_stop
        return block.elements * share / int(self._c.shape[1])
