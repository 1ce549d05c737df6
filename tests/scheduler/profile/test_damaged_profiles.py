"""A damaged or old calibration is refused by name, and plans are made without it."""

import json
import math
from pathlib import Path

import pytest

from tests.scheduler.profile.test_profile import H200, find, measure
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.profile.store import (
    FORMAT_VERSION,
    find_calibration,
    load_profile,
    store_profile,
)

RATE = ("cpu", "float32_gflops")


def write_calibration(folder, place, value):
    """A stored calibration of an H200 with another value in one place."""
    path = store_profile(measure(), folder)
    document = inner = json.loads(path.read_text())
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path.write_text(json.dumps(document))
    return path


def check_passed_over(folder):
    """This machine and a preset beside its CPU are planned without the calibration."""
    found = find(None, (H200,), folder)
    assert found.measured_at is None
    assert "calibrate` again" in found.source
    assert "measured" not in find("T4", (H200,), folder).cpu.source


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("format",), 4, f"format is 4; it must be {FORMAT_VERSION}"),
        (("cpu",), "text", "cpu is 'text'; it must be an object"),
        (("cpu", "threads"), 0, "cpu.threads is 0; it must be greater than or equal to 1"),
        (("cpu", "threads"), True, "cpu.threads is True; it must be a valid integer"),
        (("links",), [], "links is (); it must be for ('pageable', 'pinned')"),
        (("links", 1, "memory"), "disk", "links.1.memory is 'disk'; it must be 'pageable' or"),
        (("links", 0, "duplex"), 0.5, "links.0.duplex is 0.5; it must be greater than or equal"),
        (("gpu",), None, "links is ('pageable', 'pinned'); it must be for ()"),
        (("gpu", "compute_capability"), [9], "gpu.compute_capability.1 is missing"),
        (("measured_at",), 2026, "measured_at is 2026; it must be a valid string"),
        (RATE, 0, "cpu.float32_gflops is 0; it must be greater than or equal to 0.000001"),
        (RATE, 1e13, "it must be less than or equal to 1000000000000"),
        (RATE, None, "cpu.float32_gflops is None; it must be a valid number"),
        (RATE, math.inf, "cpu.float32_gflops is inf; it must be a finite number"),
        (RATE, 10**400, "cpu.float32_gflops is "),
    ],
)
def test_a_damaged_value_is_named_with_its_file_and_limit(tmp_path, place, value, message):
    path = write_calibration(tmp_path, place, value)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path} cannot be read: ")
    assert message in str(caught.value)
    check_passed_over(tmp_path)


NO_PROFILES = ("", "{}", "[1]", "{", 100_000 * "[", 100_000 * '{"beside":')
PUT = {
    "a folder": lambda path: path.mkdir(parents=True),
    "in a file": lambda path: path.parent.write_text("a file, no folder"),
    "a loop": lambda path: (path.parent.mkdir(), path.symlink_to(path)),
    **{
        text[:20]: lambda path, text=text: (path.parent.mkdir(), path.write_text(text))
        for text in NO_PROFILES
    },
}


@pytest.mark.parametrize("put", PUT)
def test_what_is_no_profile_or_cannot_be_opened_is_passed_over(tmp_path, put):
    folder = tmp_path / "profiles"
    path = find_calibration(H200, folder, 8)
    PUT[put](path)
    with pytest.raises(ProfileError, match=str(path)):
        load_profile(path)
    check_passed_over(folder)


def test_a_folder_that_cannot_be_looked_into_has_no_calibrations():
    """Too long a name fails for root, too, unlike a forbidden one."""
    check_passed_over(Path("/tmp") / ("x" * 300))
