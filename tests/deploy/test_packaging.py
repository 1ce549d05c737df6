"""The wheel, and the locks of its dependencies."""

import re
import tomllib
import zipfile

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.environment import ROOT

FOLDERS = ("service", "lab", "scheduler", "kernels", "cpu", "native")
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("pattern", ["*.py", "*.cu", "*.cuh", "*.c", "*.h"])
def test_the_wheel_has_every_source(wheel_names, pattern):
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob(pattern)]
    assert files
    assert {f"wavetrim/{path.relative_to(ROOT)}" for path in files} <= wheel_names


def test_the_wheel_has_one_package_and_nothing_else(wheel_names):
    outside = {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name}
    assert outside == {"wavetrim"}
    assert not [name for name in wheel_names if "__pycache__" in name]
    assert [name for name in wheel_names if name.endswith("licenses/LICENSE")]
    assert "wavetrim/py.typed" in wheel_names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_locks_pin_and_hash_everything_and_name_no_index(lock):
    text = lock.read_text()
    requirements = re.findall(r"^[a-z0-9].*(?:\n {4}--hash=.*)+", text, re.MULTILINE)
    assert len(requirements) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))
    assert all(re.match(r"[a-z0-9._-]+(\[.*\])?==\S+", line) for line in requirements)
    assert "://" not in text
    assert "--index-url" not in text


def test_locks_hold_every_dependency_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        "base": [*project["dependencies"], *extras["postgres"], *extras["jwt"]],
        "gpu": [*project["dependencies"], *extras["postgres"], *extras["jwt"], *extras["gpu"]],
        "ray": [*project["dependencies"], *extras["ray"]],
    }
    for lock, requirements in wanted.items():
        text = (ROOT / "requirements" / f"{lock}.lock").read_text()
        locked = set(re.findall(r"^([a-z0-9._-]+)", text, re.MULTILINE))
        assert {re.split(r"[^A-Za-z0-9._-]", name)[0] for name in requirements} <= locked


@pytest.mark.parametrize("lock", ["base", "gpu"])
def test_an_image_with_ray_has_the_versions_of_one_without(lock):
    pins, with_ray = (
        set(re.findall(r"^([a-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE))
        for path in (ROOT / "requirements" / f"{name}.lock" for name in (lock, "ray"))
    )
    shared = {name for name, _ in pins} & {name for name, _ in with_ray}
    assert shared
    assert {pin for pin in with_ray if pin[0] in shared} == {
        pin for pin in pins if pin[0] in shared
    }
