"""`wavetrim.plan`, `wavetrim.empty`, and the examples in docstrings."""

import doctest
import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest

import wavetrim
from benchmarks.host.conditions import burn_cores
from tests.matrices import FLOATS, assert_product, make_matrix
from tests.scheduler.profiles import find_preset_profile
from wavetrim.scheduler.errors import FieldError, PlanError, ProblemError
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem


def test_the_examples_in_the_docstrings_are_right():
    flags = doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testmod(wavetrim, optionflags=flags)
    assert failed == 0
    assert tried >= 12


def test_a_plan_for_another_gpu_is_that_of_the_planner():
    plan = wavetrim.plan(4096, 4096, 4096, dtype=np.float64, device="T4", memory="pinned")
    assert plan == choose_plan(
        GemmProblem(4096, 4096, 4096, "float64", "pinned"),
        find_preset_profile("T4", cpu_threads=plan.profile.cpu.threads),
    )
    assert plan.gpu_rows > 0
    held = wavetrim.plan(512, 512, 512, device="H200", f=100, kernel="cublas", sms=64)
    assert (held.f, held.sms, held.describe()["sms"]) == (100, 64, 64)
    sizes = 16384, 16384, 16384
    several = wavetrim.plan(*sizes, device="H200 x4", memory="pinned", devices="1,2")
    assert [part.position for part in several.gpu_parts] == [1, 2]


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_a_plan_may_suppose_other_numbers(dtype):
    """A rate is that of the product's type, and a link's that of each GPU and kind of memory."""
    for memory in MEMORIES:
        plan = wavetrim.plan(
            4096, 4096, 4096, dtype=dtype, memory=memory, device="T4 x2",
            cpu_threads=64, cpu_gflops=100, link_gbytes_per_second=25,
        )  # fmt: skip
        described = plan.describe()
        cpu, gpus = described["profile"]["cpu"], described["profile"]["gpus"]
        assert (cpu["threads"], cpu["gflops"]) == (64, pytest.approx(100))
        assert "as asked" in cpu["source"]
        assert len(gpus) == 2
        for link in (gpu["link"] for gpu in gpus):
            assert (link["in_gbytes_per_second"], link["out_gbytes_per_second"]) == (25, 25)
            assert "as asked" in link["source"]
        json.dumps(described)


def test_twice_the_threads_have_twice_the_rates():
    once, twice = (
        wavetrim.plan(4096, 4096, 4096, device="T4", cpu_threads=threads).profile.cpu
        for threads in (7, 14)
    )
    for name in ("float32_gflops", "float64_gflops"):
        assert getattr(twice, name) == pytest.approx(2 * getattr(once, name))
    for name in ("read_gbytes_per_second", "write_gbytes_per_second"):
        assert getattr(twice, name) == pytest.approx(2 * getattr(once, name))
    assert twice.thread_gflops == once.thread_gflops
    assert "scaled to 14" in twice.source
    own = wavetrim.plan(9, 9, 9, device="T4").profile
    same = wavetrim.plan(9, 9, 9, device="T4", cpu_threads=own.cpu.threads).profile
    assert same is own, "its runs still correct it"


def test_a_plan_for_another_machine_ignores_the_memory_of_this_one():
    sizes = 10**6, 10**6, 10**4
    assert wavetrim.plan(*sizes, device="H200 x2", memory="pinned").profile.device == "H200"
    with pytest.raises(ProblemError, match="this machine has"):
        wavetrim.plan(*sizes, device="cpu", memory="pinned")


REFUSALS = [
    ({"m": 0}, "m is 0; it must be at least 1"),
    ({"n": 2.5}, "n is 2.5; it must be a whole number from 1"),
    ({"m": np.array([5.7])}, "m is array([5.7]); it must be a whole number from 1"),
    ({"n": np.array([5, 6])}, "n is array([5, 6]); it must be a whole number from 1"),
    ({"k": True}, "k is True; it must be a whole number from 1"),
    ({"k": np.True_}, "k is np.True_; it must be a whole number from 1"),
    ({"dtype": "complex32"}, "dtype is 'complex32'; it must be one of float16"),
    ({"dtype": 5}, "dtype is '5'; it must be one of float16"),
    ({"memory": "huge"}, "memory is 'huge'; it must be one of pageable, pinned"),
    ({"device": "Abacus"}, "device is 'Abacus'; it must be one of cpu, H200, H100 SXM"),
    ({"kernel": "magic", "device": "T4"}, "kernel is 'magic'; it must be one of auto"),
    ({"f": -1}, 'f is -1; it must be "auto" or a whole number of rows'),
    ({"f": np.array([1])}, 'f is array([1]); it must be "auto" or a whole number of rows'),
    ({"sms": np.array([1])}, "sms is array([1]); it must be a whole number from 1"),
    ({"f": 3}, 'f is 3; it must be "auto" or 0…2'),
    ({"m": 2**60}, "m, n, k is (1152921504606846976, 2, 2); it must be smaller"),
    ({"resident": 1}, "resident is 1; it must be True or False"),
    ({"device": 5}, "device is 5; it must be None or a name"),
    ({"device": "T4", "sms": "5"}, "sms is '5'; it must be a whole number from 1"),
    ({"device": "T4", "sms": 41}, "sms is 41; it must be 1…40"),
    ({"cpu_threads": 2.5}, "cpu_threads is 2.5; it must be a whole number from 1 to 4096"),
    ({"cpu_gflops": "fast"}, "cpu_gflops is 'fast'; it must be a number from 0.001 to 1e+09"),
    ({"link_gbytes_per_second": 9, "device": "cpu"}, "link_gbytes_per_second is 9; it must be"),
    ({"accuracy": "float64"}, "accuracy is 'float64'; it must be one of strict, library"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSALS)
def test_a_plan_that_cannot_be_made_is_refused(changed, message):
    with pytest.raises(FieldError) as refused:
        wavetrim.plan(**{"m": 2, "n": 2, "k": 2, **changed})
    assert message in str(refused.value)


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_empty_arrays_have_shape_and_type(dtype):
    for shape in (0, 5, (), (2, 3), [4, 1, 3], (0, 7)):
        array = wavetrim.empty(shape, dtype)
        assert array.shape == np.empty(shape, dtype).shape
        assert array.dtype == dtype
        assert array.flags.carray
        array[...] = 3
        assert (array == 3).all()
    assert wavetrim.empty(3).dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((2, -1), "float32", r"shape is \(2, -1\); it must be a whole number from 0"),
        (2.5, "float32", r"shape is 2\.5; it must be"),
        ((10**30, 1), "float32", rf"shape is \({10**30}, 1\); it must be one of at most"),
        ((10**30, 0), "int8", rf"at most {2**63 - 1} elements of int8, sides of 0 left out"),
        (2**62, "float32", rf"shape is \({2**62},\); .* at most {2**61 - 1} elements of float32"),
        ((2**31, 2**31, 0), "bfloat16", rf"at most {2**62 - 1} elements of bfloat16"),
        ((1,) * 65, "float32", "axes of shape is 65; it must be at most 64"),
        (3, object, "dtype is 'object'; it must be one of float16"),
        (3, "no type", "dtype is 'no type'; it must be one of float16"),
    ],
)
def test_an_array_that_cannot_be_made_is_refused(shape, dtype, message):
    with pytest.raises(FieldError, match=message):
        wavetrim.empty(shape, dtype)


@pytest.mark.gpu
def test_empty_arrays_are_page_locked_and_planned_so():
    from wavetrim.kernels.transfer.pinned import is_pinned

    a, b, c = (wavetrim.empty(shape) for shape in ((900, 800), (800, 700), (900, 700)))
    assert all(map(is_pinned, (a, b, c)))
    a[...], b[...] = make_matrix(900, 800, "float32", 1), make_matrix(800, 700, "float32", 2)
    for device in (None, "gpu", "cpu"):
        c.fill(np.nan)
        assert wavetrim.matmul(a, b, out=c, device=device) is c
        assert_product(c, a, b)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
def test_products_on_the_gpu_are_right(dtype):
    a, b = make_matrix(700, 600, dtype, 1), make_matrix(600, 500, dtype, 2)
    assert_product(wavetrim.matmul(a, b, device="gpu", verify=True), a, b)
    assert_product(wavetrim.matmul(a[::-2, ::2], b[::2], device="gpu"), a[::-2, ::2], b[::2])
    assert_product(wavetrim.matmul(a, b, f=300), a, b)


@pytest.mark.gpu
@pytest.mark.parametrize("is_busy", [False, True])
@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_product_that_comes_again_is_that_of_its_operands(is_pinned, is_busy):
    make = wavetrim.empty if is_pinned else np.empty
    shapes = [(9, 8, 7), (150, 90, 170), (700, 30, 900), (1200, 1100, 1000), (20000, 40, 30)]
    operands = [
        tuple(make(sides, "float32") for sides in ((m, k), (k, n), (m, n))) for m, n, k in shapes
    ]
    with burn_cores(os.cpu_count() if is_busy else 0):
        for turn in range(20):
            for a, b, c in operands:
                a[...] = make_matrix(*a.shape, "float32", turn)
                b[...] = make_matrix(*b.shape, "float32", turn + 100)
                if turn % 3 == 2:  # NumPy's threads spin
                    np.matmul(b.T, b)
                assert wavetrim.matmul(a, b, out=c) is c
                assert_product(c, a, b)
                if turn % 5 == 4 and b.shape[1] <= b.shape[0]:  # of the same kind, but not as plain
                    overlapping = a[:, : b.shape[1]]
                    before = a.copy()
                    assert_product(wavetrim.matmul(a, b, out=overlapping), before, b)


@pytest.mark.gpu
def test_integers_are_refused_to_the_gpu():
    with pytest.raises(PlanError, match=r"device is 'gpu'.*no kernel multiplies int32"):
        wavetrim.matmul(np.ones((300, 300), "int32"), np.eye(300, dtype="int32"), device="gpu")


def test_a_plan_is_shown_in_one_line_and_as_a_picture_in_notebooks():
    plan = wavetrim.plan(4096, 2048, 1024, device="H200")
    for shown in (str(plan), repr(plan)):
        assert shown.startswith("C[4096,2048] = A[4096,1024]·B[1024,2048] in float32 on H200: F = ")
        assert len(shown) < 250
        assert "\n" not in shown
    shown = plan._repr_html_()
    picture = ElementTree.fromstring(f"<div>{shown}</div>")
    svg = "{http://www.w3.org/2000/svg}"
    waves = [one for one in picture.iter(f"{svg}path") if one.get("stroke") is None]
    assert len(waves) == plan.waves
    assert f"F = {plan.f} of 4096 rows on the CPU" in "".join(picture.itertext())
    assert "href" not in shown
    assert len(shown) < 20_000
