"""A damaged calibration is refused by name, and plans are made without it."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.profile.test_profile import H200, find
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.candidates import find_candidates
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.document import LEAST_MEMORY_BYTES
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_calibration, load_profile, read_key, store_profile

RATE = ("cpu", "rates", 1, "gflops")


def write_calibration(folder: Path, place: tuple[str | int, ...], value: Any) -> Path:
    """A stored calibration of an H200 with another value in one place."""
    profile = replace(find(None, [H200]), measured_at="2026-01-01", key=read_key(H200, 8))
    path = store_profile(profile, folder)
    document = inner = json.loads(path.read_text())
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path.write_text(json.dumps(document))
    return path


def check_passed_over(folder: Path) -> None:
    """This machine and a preset beside its CPU are planned without the calibration."""
    found = find(None, [H200], folder)
    assert found.measured_at is None
    assert "calibrate` again" in found.source
    assert "measured" not in find("T4", [H200], folder).find_cpu_rate("float32").source


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("cpu", "rates"), [], "cpu.rates is []; it must be a list with float32"),
        (("cpu", "beside_gpu"), [], "beside_gpu is []; it must be a list with pageable and pinned"),
        (("cpu", "beside_gpu", 0), "text", "cpu.beside_gpu[0] is 'text'; it must be an object"),
        (("cpu", "threads"), 0, "cpu.threads is 0; it must be a whole number from 1 to 1e+18"),
        (("cpu", "threads"), True, "cpu.threads is True; it must be a whole number from 1"),
        (("links",), [], "links is []; it must be a list with pageable and pinned"),
        (("links", 1, "memory"), "disk", "is 'disk'; it must be one of pageable, pinned"),
        (("links", 0, "call_seconds"), -1, "links[0].call_seconds is -1; it must be a number from"),
        (("gpu",), None, "gpu is None; it must be the GPU that the links lead to"),
        (
            ("gpu", "memory_bytes"),
            1,
            "memory_bytes is 1; it must be a whole number from 16777216",
        ),
        (("gpu", "compute_capability"), [9], "is [9]; it must be a list of 2"),
        (("kernels", 0, "slots"), 0.5, "slots is 0.5; it must be a whole number from 1 to 1e+18"),
        (("kernels", 0, "assumed"), 1, "assumed is 1; it must be true or false"),
        (("measured_at",), 2026, "measured_at is 2026; it must be a text"),
        (("key",), [], "key is []; it must be an object"),
        (("beside",), None, "beside is None; it must be a list"),
        (("format",), 1, "format is 1; it must be 4"),
        (RATE, 0, "cpu.rates[1].gflops is 0; it must be a number from 1e-18 to 1e+18"),
        (RATE, "fast", "cpu.rates[1].gflops is 'fast'; it must be a number"),
        (RATE, None, "cpu.rates[1].gflops is None; it must be a number"),
        (RATE, math.nan, "cpu.rates[1].gflops is nan; it must be a number"),
        (RATE, math.inf, "cpu.rates[1].gflops is inf; it must be a number"),
        (RATE, 10**400, "cpu.rates[1].gflops is 10000000"),
    ],
)
def test_a_damaged_value_is_named_with_its_file_and_limit(
    tmp_path: Path, place: tuple[str | int, ...], value: Any, message: str
) -> None:
    path = write_calibration(tmp_path, place, value)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path} cannot be read: ")
    assert message in str(caught.value)
    check_passed_over(tmp_path)


def test_a_missing_value_is_named() -> None:
    document = find("H200 x2").as_dict()
    del document["beside"][0]["cpu"]["rates"][0]["gflops"]
    with pytest.raises(ProfileError, match=r"^beside\[0\]\.cpu\.rates\[0\]\.gflops is missing$"):
        MachineProfile.from_dict(document)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex128"])
def test_products_are_planned_for_the_least_memory(dtype: str) -> None:
    profile = find("H200")
    assert profile.gpu is not None
    profile = replace(profile, gpu=replace(profile.gpu, memory_bytes=LEAST_MEMORY_BYTES))
    for shape in ((1, 1, 1), (4096, 4096, 4096), (65536, 64, 100_000)):
        kernels = rank_all(GemmProblem(*shape, dtype), profile)
        assert kernels
        assert all(math.isfinite(seconds) for seconds in kernels)


def rank_all(problem: GemmProblem, profile: MachineProfile) -> list[float]:
    """Predicted seconds of the GPU alone, by each kernel and tile that it runs."""
    return [
        choose_plan(
            problem, profile, PlanOptions(f=0, kernel=one.spec.name, tile=str(one.spec.tile))
        ).predicted.total_seconds
        for one in find_candidates(problem, profile, PlanOptions())
    ]


@pytest.mark.parametrize("nested", ["[", '{"beside":['])
def test_deeply_nested_json_is_passed_over(tmp_path: Path, nested: str) -> None:
    path = find_calibration(H200, tmp_path, 8)
    path.write_text(100_000 * nested)
    with pytest.raises(ProfileError, match="recursion"):
        load_profile(path)
    check_passed_over(tmp_path)


@pytest.mark.parametrize(
    "block",
    [
        lambda path: path.mkdir(parents=True),
        lambda path: path.parent.write_text("a file, no folder"),
        lambda path: (path.parent.mkdir(), path.symlink_to(path)),
    ],
    ids=["a folder", "in a file", "a loop"],
)
def test_a_calibration_that_cannot_be_opened_is_passed_over(
    tmp_path: Path, block: Callable[[Path], object]
) -> None:
    folder = tmp_path / "profiles"
    path = find_calibration(H200, folder, 8)
    block(path)
    with pytest.raises(ProfileError, match=str(path)):
        load_profile(path)
    check_passed_over(folder)


def test_a_folder_that_cannot_be_looked_into_has_no_calibrations() -> None:
    """Too long a name fails for root, too, unlike a forbidden one."""
    check_passed_over(Path("/tmp") / ("x" * 300))
