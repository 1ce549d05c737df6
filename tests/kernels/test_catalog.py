import pytest

from tests.matrices import FLOATS
from tests.processes import run_python
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.errors import UnknownKernel
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.tiling import RegisterTiling, Tile, WarpTiling

COMPILED = [spec for spec in list_kernels() if spec.source]
REGISTER = [spec for spec in list_kernels() if spec.name == "register"]


def name_spec(spec: KernelSpec) -> str:
    return spec.label.replace(" ", "-")


def test_the_textbook_kernels_come_in_four_widths_and_two_types() -> None:
    for name in ("naive", "simple", "coalesced", "shared"):
        for dtype in ("float32", "float64"):
            widths = {spec.tile.m for spec in list_kernels(dtype=dtype) if spec.name == name}
            assert widths == {4, 8, 16, 32}


def test_every_type_has_a_library_kernel_to_fall_back_on() -> None:
    for dtype in FLOATS:
        assert find_kernel("cublas", dtype).accuracy == "library"


@pytest.mark.parametrize("spec", list_kernels(), ids=name_spec)
def test_an_entry_is_found_by_its_own_description(spec: KernelSpec) -> None:
    assert find_kernel(spec.name, spec.dtype, str(spec.tile)) is spec
    short = find_kernel(spec.name, spec.dtype, f"{spec.tile.m}x{spec.tile.n}")
    same = [x for x in list_kernels(dtype=spec.dtype) if x.name == spec.name]
    assert short is next(x for x in same if (x.tile.m, x.tile.n) == (spec.tile.m, spec.tile.n))


def test_a_textbook_tile_is_its_width() -> None:
    assert find_kernel("shared", "float32", "16").tile == Tile(16, 16, 16)
    assert find_kernel("shared", "float32", "16").threads == 256


def test_without_a_tile_the_kernels_first_entry_is_found() -> None:
    assert find_kernel("simple", "float64").tile == Tile(32, 32, 32)
    assert find_kernel("register", "float32").tile == REGISTER[0].tile


@pytest.mark.parametrize(
    ("name", "dtype", "tile", "field"),
    [
        ("fast", "float32", None, "kernel"),
        ("register", "float16", None, "dtype"),
        ("shared", "int32", None, "dtype"),
        ("shared", "float32", "64", "tile"),
        ("shared", "float32", "16x8", "tile"),
        ("register", "float32", "", "tile"),
    ],
)
def test_what_is_not_in_the_catalog_is_refused_by_field_value_and_limit(
    name: str, dtype: str, tile: str | None, field: str
) -> None:
    with pytest.raises(UnknownKernel) as refusal:
        find_kernel(name, dtype, tile)
    assert refusal.value.field == field
    assert refusal.value.value == {"kernel": name, "dtype": dtype, "tile": tile}[field]
    assert refusal.value.limit.startswith("one of ")
    assert repr(refusal.value.value) in str(refusal.value)


def test_kernels_are_listed_by_type_and_by_what_the_gpu_runs() -> None:
    assert {spec.dtype for spec in list_kernels(dtype="float64")} == {"float64"}
    assert list_kernels(compute_capability=(6, 1)) == ()
    assert list_kernels(compute_capability=(9, 0)) == list_kernels()


def test_a_kernel_of_one_architecture_is_not_listed_for_others() -> None:
    tensor = find_kernel("tensor", "float32")
    assert tensor in list_kernels(compute_capability=(9, 0))
    for other in ((8, 9), (10, 0), (12, 0)):
        assert not tensor.runs_on(other)
        assert tensor not in list_kernels(compute_capability=other)


def test_all_our_kernels_but_those_of_tensor_cores_are_strict() -> None:
    for spec in COMPILED:
        of_tensor = "library" if spec.dtype in ("float16", "bfloat16") else spec.dtype
        assert spec.accuracy == (of_tensor if spec.name == "tensor" else "strict")


def test_a_limit_of_multiprocessors_is_rounded_to_partitions_and_clusters() -> None:
    cublas, bulk = find_kernel("cublas", "float64"), find_kernel("bulk", "float32")
    pairs = find_kernel("tensor", "float16")
    asked = (1, 7, 8, 13, 64, 131, 132)
    assert [pairs.count_held_sms(sms, 132) for sms in asked] == [0, 6, 8, 12, 64, 130, 132]
    assert [cublas.count_held_sms(sms, 132) for sms in asked] == [0, 0, 8, 8, 64, 128, 132]
    assert [bulk.count_held_sms(sms, 132) for sms in asked] == list(asked)


def test_warps_divide_the_tile_of_the_float64_tensor_kernel() -> None:
    for spec in list_kernels(dtype="float64"):
        if isinstance(spec.tiling, WarpTiling):
            warps = spec.tile.m // spec.tiling.warp_m * (spec.tile.n // spec.tiling.warp_n)
            assert spec.threads == 32 * warps
            assert spec.tiling.warp_m * spec.tiling.warp_n * warps == spec.tile.m * spec.tile.n


@pytest.mark.parametrize("spec", REGISTER, ids=name_spec)
def test_whole_warps_divide_a_register_tile(spec: KernelSpec) -> None:
    assert isinstance(spec.tiling, RegisterTiling)
    assert spec.threads % 32 == 0
    assert spec.threads * spec.tiling.thread_m * spec.tiling.thread_n == spec.tile.m * spec.tile.n


@pytest.mark.parametrize("spec", COMPILED, ids=name_spec)
def test_a_block_fits_the_oldest_gpu_that_its_entry_claims(spec: KernelSpec) -> None:
    shared_limit_bytes = {(7, 5): 64 << 10, (8, 0): 99 << 10, (9, 0): 227 << 10}
    assert spec.threads <= 1024
    assert spec.shared_bytes <= shared_limit_bytes[spec.min_compute_capability]


def test_the_catalog_is_read_without_numpy_or_cupy() -> None:
    program = "import sys, wavetrim.kernels.catalog; print({'numpy', 'cupy'} & set(sys.modules))"
    answer = run_python(program)
    assert answer.stdout == "set()\n", answer.stderr
