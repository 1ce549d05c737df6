"""The survey of a GPU's kernels measures first those that plans may choose."""

import pytest

from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.calibration.kernels import order_kernels
from wavetrim.scheduler.profile.presets import PRESETS

TEXTBOOK = {"naive", "simple", "coalesced", "shared"}


@pytest.mark.parametrize("gpu", PRESETS, ids=lambda gpu: gpu.name)
def test_every_kernel_is_listed_once_and_the_textbook_ones_last(gpu):
    specs = order_kernels(gpu)
    here = list_kernels(compute_capability=gpu.compute_capability)
    assert sorted(spec.label for spec in specs) == sorted(spec.label for spec in here)
    asked = [spec.accuracy == "float32" or not spec.automatic for spec in specs]
    assert asked == sorted(asked)  # kernels that plans take only on request are last
    textbook = [spec.name in TEXTBOOK for spec in specs[: asked.count(False)]]
    assert textbook == sorted(textbook)


def test_on_hopper_fast_kernels_come_first_those_of_usual_types_before_others():
    names = [(spec.name, spec.dtype) for spec in order_kernels(PRESETS[0])]
    assert {dtype for _, dtype in names[:2]} == {"float32", "float64"}
    first_slow = min(names.index(one) for one in names if one[0] in TEXTBOOK)
    assert {dtype for _, dtype in names[:first_slow]} == {dtype for _, dtype in names}
    assert names[0] == ("bulk", "float32")
    assert names.index(("bulk", "float32")) < names.index(("register", "float32"))
