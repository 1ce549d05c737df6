"""The client as a distribution of its own, and as a part of wavetrim."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import wavetrim
import wavetrim.client
from tests.environment import ROOT
from wavetrim.service.version import find_version

PROJECT = ROOT / "clients" / "python"
README = (PROJECT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

TYPED = """
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray
from wavetrim_client import (
    AsyncClient, AsyncJob, Client, Details, Job, JobStatus, Matrix, as_completed,
)

client = Client("http://127.0.0.1:8000", api_key=None, timeout=None)
a = np.eye(3)
assert_type(client.matmul(a, [[1.0], [2.0], [3.0]], alpha=2.0, f="auto"), NDArray[Any])
assert_type(client.matmul_with_details(a, a, beta=1.0, c=a, out=a), tuple[NDArray[Any], Details])
assert_type(client.put(Path("A.npy")), Matrix)
job = client.submit(a, "id", accuracy="strict", sms=66, verify=True)
assert_type(job, Job)
assert_type(job.wait(progress=lambda status: print(status.progress)), JobStatus)
assert_type(client.submit_many([(a, job), (job, a, "id")], beta=1.0, labels=["x"]), list[Job])
for product in client.map((x, x) for x in np.ones((3, 2, 2))):
    assert_type(product, NDArray[Any])
for ended in as_completed([job]):
    assert_type(ended, Job)
client.matmul(a, a, accuracy="good")  # type: ignore[arg-type]
client.matmul(a, a, gamma=1.0)  # type: ignore[call-arg]


async def multiply() -> NDArray[Any]:
    async with AsyncClient() as other:
        first = await other.submit(a, a)
        assert_type(await other.submit_many([(a, first)]), list[AsyncJob])
        async for ended in other.as_completed([first]):
            assert_type(ended, AsyncJob)
        return await (await other.submit(first, a, priority=1)).result()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(PROJECT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment with the wheel and all packages of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True, with_pip=False)
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "this.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def test_the_source_distribution_makes_the_same_wheel(wheel, tmp_path):
    (built,) = SdistBuilder(str(PROJECT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as archive:
        # As installers do: no link leads out of it. Before 3.11.4 Python has no such filter.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (again,) = WheelBuilder(str(folder)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert first.namelist() == second.namelist()
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_has_the_client_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    sources = {
        str(path.relative_to(PROJECT)) for path in (PROJECT / "wavetrim_client").rglob("*.py")
    }
    assert {name for name in names if ".dist-info/" not in name} == {
        *sources,
        "wavetrim_client/py.typed",
    }
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert "License-Expression: Apache-2.0" in metadata
    assert len(re.findall("^Requires-Dist: (?!.*extra ==)", metadata, re.MULTILINE)) == 1


def test_the_client_imports_with_numpy_alone(wheel, tmp_path):
    folder = Path(np.__file__).parent
    for found in folder.parent.glob(f"{folder.name}*"):
        (tmp_path / found.name).symlink_to(found)
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; import wavetrim_client; "
        "print(wavetrim_client.Client('http://127.0.0.1:1'))"
    )
    # -S leaves out what is installed.
    run = [sys.executable, "-I", "-S", "-c", code, str(wheel), str(tmp_path)]
    printed = subprocess.run(run, capture_output=True, text=True, check=False)
    assert printed.stdout == "Client('http://127.0.0.1:1')\n", printed.stderr


@pytest.mark.slow
def test_the_types_of_the_client_pass_mypy(python, tmp_path):
    (tmp_path / "user.py").write_text(TYPED)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=["products", "jobs", "asyncio"])
def test_the_examples_of_its_readme_run(example, python, shared_server, tmp_path):
    (tmp_path / "example.py").write_text(
        example.replace("http://127.0.0.1:8000", shared_server.url)
    )
    run = subprocess.run(
        [python, "-W", "error", "example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout


def test_wavetrim_has_the_same_client():
    assert wavetrim.Client is wavetrim.client.Client
    assert wavetrim.AsyncClient is wavetrim.client.AsyncClient
    assert (ROOT / "wavetrim" / "client").resolve() == PROJECT / "wavetrim_client"
    assert wavetrim.client.__version__ == find_version()


def test_wavetrim_depends_on_what_its_client_needs():
    needed, has = (
        {re.split(r"[^a-z0-9]", name)[0] for name in project["project"]["dependencies"]}
        for project in (
            tomllib.loads((folder / "pyproject.toml").read_text()) for folder in (PROJECT, ROOT)
        )
    )
    assert needed <= has
