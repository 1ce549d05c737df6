import pytest

from tests.kernels.specs import name_spec
from tests.processes import expect_output
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.gemm.launch import make_persistent

COMPILED = [spec for spec in list_kernels() if spec.source]


def test_a_kernel_of_one_architecture_is_not_listed_for_others():
    tensor = find_kernel("tensor", "float32")
    assert tensor in list_kernels(compute_capability=(9, 0))
    for other in ((8, 9), (10, 0), (12, 0)):
        assert not tensor.runs_on(other)
        assert tensor not in list_kernels(compute_capability=other)


def test_all_our_kernels_but_those_of_tensor_cores_are_strict():
    for spec in COMPILED:
        of_tensor = "library" if spec.dtype in ("float16", "bfloat16") else spec.dtype
        assert spec.accuracy == (of_tensor if spec.name == "tensor" else "strict")


def test_a_limit_of_multiprocessors_is_rounded_to_partitions_and_clusters():
    cublas, bulk = find_kernel("cublas", "float64"), find_kernel("bulk", "float32")
    pairs = find_kernel("tensor", "float16")
    asked = (1, 7, 8, 13, 64, 131, 132)
    assert [pairs.count_usable_sms(sms, 132) for sms in asked] == [0, 6, 8, 12, 64, 130, 132]
    assert [cublas.count_usable_sms(sms, 132) for sms in asked] == [0, 0, 8, 8, 64, 128, 132]
    assert [bulk.count_usable_sms(sms, 132) for sms in asked] == list(asked)


@pytest.mark.parametrize("spec", COMPILED, ids=name_spec)
def test_a_block_fits_the_oldest_gpu_that_its_entry_claims(spec):
    shared_limit_bytes = {(7, 5): 64 << 10, (8, 0): 99 << 10, (9, 0): 227 << 10}
    assert spec.threads <= 1024
    assert spec.shared_bytes <= shared_limit_bytes[spec.min_compute_capability]


def test_a_block_of_a_held_float64_product_fills_a_multiprocessor():
    held = [spec for spec in COMPILED if spec.dtype == "float64" and spec.can_limit_sms]
    assert held
    for spec in map(make_persistent, held):
        assert 227 * 1024 // 2 < spec.shared_bytes <= 227 * 1024


def test_the_catalog_is_read_without_numpy_or_cupy():
    program = "import sys, wavetrim.kernels.catalog; print({'numpy', 'cupy'} & set(sys.modules))"
    expect_output(program, prints="set()\n")
