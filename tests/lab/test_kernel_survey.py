"""The survey of a GPU's kernels: those that can win are measured first."""

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
    ours = [spec.name in TEXTBOOK for spec in specs]
    assert ours == sorted(ours)


def test_on_hopper_the_fastest_of_each_element_type_come_first():
    names = [(spec.name, spec.dtype) for spec in order_kernels(PRESETS[0])]
    assert set(names[:3]) == {
        ("cublas", "float16"), ("cublas", "float64"), ("tensor", "float32"),
    }  # fmt: skip
    assert names.index(("bulk", "float32")) < names.index(("register", "float32"))
