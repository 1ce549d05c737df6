"""Which products take the way of an earlier one, beside a GPU."""

import numpy as np

from wavetrim.kernels.transfer.pinned import locate
from wavetrim.scheduler.local.known import ProductKind


def test_a_kind_is_that_of_plain_operands_of_its_shapes_that_share_no_memory():
    a, b, c = (np.zeros(shape, "float32") for shape in ((5, 3), (3, 7), (5, 7)))
    kind = ProductKind(a.shape, b.shape, a.dtype, 1.0, is_pinned=False, crowd="quiet")
    operands, memory = kind.describe_operands(), np.empty(50, "float32")
    assert operands.locate(a, b, c) == locate(a, b, c)[0]
    overlapping = memory[:35].reshape(5, 7), memory[20:41].reshape(3, 7)
    for others in (
        (a.astype("float64"), b, c),
        (np.asfortranarray(a), b, c),
        (a, b, c[:4]),
        (a, overlapping[1], overlapping[0]),
        (a, b, np.empty((5, 14), "float32")[:, ::2]),
    ):
        assert operands.locate(*others) is None
