"""Arguments of calls: refused before anything is sent, or taken as they are."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.foreign_arrays import GIVEN, ByDlpack
from tests.matrices import assert_product, make_matrix

NOBODY = "http://127.0.0.1:1"
MASKED = np.ma.masked_array(np.eye(2), mask=np.eye(2) > 0)
EYE = np.eye(2)
WIDE, STACK = np.zeros((2, 3)), np.zeros((2, 3, 4))

REFUSED = [
    ("matmul", (WIDE, np.zeros((4, 2))), {}, "b has 4 rows; it must have 3, as a is (2, 3)"),
    ("matmul", (np.zeros((1, 2, 3, 4)), EYE), {}, "a has 4 dimensions; it must have 1 to 3"),
    ("matmul", (STACK, np.zeros((3, 4, 2))), {}, "b has 3 matrices; it must have 2"),
    ("matmul", (WIDE, 5.0), {}, "b has 0 dimensions"),
    ("matmul", (EYE, np.eye(2, dtype="longdouble")), {}, "; it must be one of float16"),
    ("matmul", (np.eye(1, dtype="bfloat16"), np.eye(1, dtype="i4")), {}, "bfloat16 and int32; Num"),
    ("matmul", (EYE, EYE), {"out": np.zeros((3, 2))}, "out has the shape (3, 2); it must have"),
    ("matmul", (EYE, EYE), {"out": np.zeros((2, 2), "f4")}, "out has the dtype float32; it must"),
    ("matmul", (EYE, EYE), {"beta": 0.5}, "c is None; it must be a matrix, because beta is 0.5"),
    (
        "matmul",
        (EYE, EYE),
        {"beta": 1, "c": np.zeros(3)},
        "c has the shape (3,); it must have (2, 2",
    ),
    ("submit", (WIDE, WIDE), {}, "b has 2 rows; it must have 3, as a is (2, 3)"),
    ("submit", (np.ones(3), np.ones((3, 3))), {}, "a has 1 dimensions; it must have 2, or 3 as a"),
    ("submit", (WIDE, WIDE.T), {"beta": 1.0, "c": np.eye(4)}, "c has the shape (4, 4); it must"),
    ("submit", (STACK, np.zeros((3, 4, 2))), {}, "b has 3 matrices; it must have 2"),
    ("submit", (EYE, EYE), {"labels": "x"}, "must be a list"),
    ("put", (np.zeros((1, 2, 2, 2)),), {}, "4 dimensions; it must have 2, or 3 as a stack"),
    ("put", (np.zeros((2, 2), bool),), {}, "dtype is bool; it must be one of float16"),
    ("put", ([["a", "b"]],), {}, "array is 'list of numpy.str_'; it must be an array of numbers"),
    *(
        (call, given, {"out": out}, message)
        for call, given in (("matmul", (EYE, EYE)), ("get", ("x",)))
        for out, message in (
            (np.broadcast_to(0.0, (2, 2)), "out is read-only"),
            ([[1]], "out is 'list'; it must be a NumPy array"),
            (MASKED, "out is a masked array; it must be an array without a mask, such as x.filled"),
        )
    ),
    *(
        (call, (one, *rest), {}, f"matrix is '{type(one).__name__}'; it must be a Matrix of the")
        for call, *rest in (("get",), ("delete",), ("download", "x.npy"))
        for one in (None, 7, EYE)
    ),
    *(
        ("submit", (EYE, EYE), {"idempotency_key": key}, "it must have 1 to 255 printable ASCII")
        for key in ("", "a\nb", " a", "a ", "ü", "x" * 256)
    ),
    *(
        (call, (EYE, EYE), {name: factor}, f"{name} is {factor!r}; it must be a finite real number")
        for call in ("matmul", "submit")
        for name in ("alpha", "beta")
        for factor in (math.nan, math.inf, -math.inf, 1j, None, "2", np.ones(1))
    ),
]
"""Calls, their arguments and options, and what a refusal says."""


def test_what_cannot_be_is_refused_before_anything_is_sent(connect):
    client = connect(NOBODY)
    for call, given, options, message in REFUSED:
        with pytest.raises(ValueError, match=re.escape(message)):
            getattr(client, call)(*given, **options)


def list_calls(client, value):
    """Calls that are given a value, by the operand's name."""
    return {
        "a": lambda: client.matmul(value, EYE),
        "b": lambda: client.matmul(EYE, value),
        "c": lambda: client.matmul(EYE, EYE, c=value, beta=1.0),
        "array": lambda: client.put(value),
    }


def test_a_masked_array_is_refused_as_its_mask_would_be_lost(connect):
    client = connect(NOBODY)
    calls = [*list_calls(client, MASKED).items(), ("b", lambda: client.submit("m", MASKED))]
    for name, call in calls:
        with pytest.raises(ValueError, match=f"{name} is a masked array; it must be an array with"):
            call()


@pytest.mark.parametrize("given", GIVEN)
def test_a_refusal_names_what_was_given(connect, given):
    value, message = GIVEN[given]
    calls = list_calls(connect(NOBODY), value)
    if value is None:
        del calls["c"]
    if isinstance(value, Path):
        del calls["array"]
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{name} is ") as refused:
            call()
        assert message in str(refused.value)


def test_an_array_of_another_library_is_taken_in_host_memory(client):
    a = make_matrix(5, 4, "float64", 1)
    assert_product(client.matmul(ByDlpack(a), a.T), a, a.T)


def test_a_numpy_matrix_is_filled(client):
    a, b = make_matrix(5, 4, "float64", 1), make_matrix(4, 3, "float64", 2)
    product = np.empty((5, 3)).view(np.matrix)
    assert client.matmul(a, b, out=product) is product
    assert_product(np.asarray(product), a, b)
    read = np.empty((5, 4)).view(np.matrix)
    assert client.get(client.put(a), out=read) is read
    np.testing.assert_array_equal(read, a)


def test_an_unknown_option_is_named_with_those_that_there_are(connect):
    client = connect(NOBODY)
    for call in (
        lambda: client.matmul(EYE, EYE, threads=2),
        lambda: client.submit(EYE, EYE, threads=2),
        lambda: client.plan(2, 2, 2, threads=2),
    ):
        with pytest.raises(TypeError, match=r"there is no option 'threads'; there are f, kernel,"):
            call()


def test_a_plan_takes_options_and_what_the_machine_might_have(client):
    asked = {"dtype": "float64", "memory": "pinned", "device": "H200"}
    plan = client.plan(4096, 4096, 4096, **asked, kernel="register", f=512)
    assert plan["memory"] == "pinned"
    assert (plan["f"], plan["gpu_rows"], plan["kernel"]) == (512, 3584, "register")
    plan = client.plan(512, 512, 512, device="T4", cpu_threads=64, link_gbytes_per_second=25)
    assert plan["profile"]["cpu"]["threads"] == 64
    asked = {"device": "T4", "cpu_threads": 64}
    faster = client.plan(4096, 4096, 4096, **asked, cpu_gflops=np.float64(10**6))
    assert faster["f"] > client.plan(4096, 4096, 4096, **asked)["f"]
    assert client.plan(64, 8192, 8192, device="H200", resident=True)["resident"]


def test_the_files_of_a_job_are_checked_before_they_are_sent(connect, tmp_path):
    np.save(tmp_path / "wide.npy", WIDE)
    np.save(tmp_path / "single.npy", np.ones((3, 3), np.float32))
    client = connect(NOBODY)
    for b, message in (
        (WIDE, r"b has 2 rows; it must have 3, as a is \(2, 3\)"),
        (tmp_path / "single.npy", "the dtypes are float64 of a, float32 of b"),
    ):
        with pytest.raises(ValueError, match=message):
            client.submit(tmp_path / "wide.npy", b)
