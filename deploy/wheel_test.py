"""Installs a wheel as a user would, next to distributions named like its folders, and uses it.

Run by `make wheel-test`. It prints what it has checked.
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from deploy.readiness import find_free_port, wait_until_ready

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements" / "base.lock"
NEIGHBOURS: Final = ROOT / "requirements" / "neighbours.txt"
NEIGHBOUR_NAMES: Final = ("kernels", "scheduler", "service")

_EXAMPLE: Final = re.compile(r"(?<=^```python\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
_SAVE_OPERANDS: Final = """
import numpy as np
np.save("a.npy", np.ones((3, 4)))
np.save("b.npy", np.ones((4, 5)))
"""
_LIST_FILES: Final = """
import importlib, importlib.metadata, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    for file in importlib.metadata.files(name):
        if "__pycache__" not in file.parts:
            print(file.locate())
"""


class Environment:
    """A virtual environment in a folder, used away from the clone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._uv = os.environ.get("UV", "uv")
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONPATH", "VIRTUAL_ENV"} and not name.startswith("WAVETRIM_")
        }
        self._call(self._uv, "venv", "--quiet", "--python", sys.executable, self._bin.parent)

    @property
    def _bin(self) -> Path:
        return self._folder / "venv" / "bin"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self._bin / "python"

    def install(self, *arguments: str | Path) -> None:
        """Install by uv."""
        self._call(self._uv, "pip", "install", "--quiet", "--python", self.python, *arguments)

    def uninstall(self, name: str) -> None:
        """Uninstall a distribution."""
        self._call(self._uv, "pip", "uninstall", "--quiet", "--python", self.python, name)

    def run(self, *arguments: str | Path) -> str:
        """What its interpreter prints."""
        return self._call(self.python, *arguments)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the `wavetrim` command."""
        command = [str(self._bin / "wavetrim"), *arguments]
        return subprocess.Popen(command, cwd=self._folder, env=self._variables)

    def _call(self, *command: str | Path) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self._folder, env=self._variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        expect(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout


def main() -> None:
    """Run the test on the wheel named on the command line.

    Raises:
        SystemExit: Something does not hold; the message says what.
    """
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="wavetrim-wheel-") as name:
        folder = Path(name)
        check_contents(wheel, folder)
        environment = Environment(folder)
        environment.install("--require-hashes", "-r", LOCK)
        environment.install("-r", NEIGHBOURS)
        before = read_neighbours(environment)
        environment.install("--no-deps", wheel)
        expect(read_neighbours(environment) == before, "installing changes its neighbours")
        check_use(environment, folder)
        serve(environment, folder)
        environment.uninstall("wavetrim")
        expect(read_neighbours(environment) == before, "uninstalling changes its neighbours")
        report(f"{len(before)} files of {', '.join(NEIGHBOUR_NAMES)} stay, and can be imported")


def check_contents(wheel: Path, folder: Path) -> None:
    """Only the package is in the wheel, and the source distribution makes the same one."""
    files = read_wheel(wheel)
    outside = [name for name in files if not re.match(r"wavetrim(-[^/]*\.dist-info)?/", name)]
    expect(not outside, f"the wheel has files outside wavetrim/: {outside}")
    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with tarfile.open(archive) as sources:
        # Before 3.11.4 Python has no filter.
        sources.extraction_filter = getattr(tarfile, "data_filter", None)
        sources.extractall(folder)
    unpacked = folder / Path(archive).name.removesuffix(".tar.gz")
    (again,) = WheelBuilder(str(unpacked)).build(directory=str(folder), versions=["standard"])
    rebuilt = read_wheel(Path(again))
    different = sorted(
        name for name in files.keys() | rebuilt.keys() if files.get(name) != rebuilt.get(name)
    )
    expect(not different, f"the source distribution makes another wheel: {different[:10]}")
    report(f"{len(files)} files, all of one package; the source distribution makes the same")


def read_wheel(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, except their list."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        return {name: archive.read(name) for name in names}


def read_neighbours(environment: Environment) -> dict[str, str]:
    """Import the neighbours; the digests of their files."""
    listed = environment.run("-c", _LIST_FILES, *NEIGHBOUR_NAMES).splitlines()
    files = [Path(line) for line in listed if Path(line).is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check_use(environment: Environment, folder: Path) -> None:
    """The command, the import and the README's example, its types checked from outside."""
    version = environment.run("-m", "wavetrim", "--version").strip()
    expect(re.fullmatch(r"wavetrim \d+\.\d+\.\d+", version) is not None, f"--version: {version}")
    *_, example = _EXAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    program = folder / "example.py"
    program.write_text(f"{example}print(np.allclose(a @ b, c))\n", encoding="utf-8")
    environment.run("-c", _SAVE_OPERANDS)
    printed = environment.run(program).strip()
    expect(printed == "True", f"the README's example prints {printed}")
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull),
            *("--python-executable", str(environment.python), str(program)),
        ],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    expect(checked.returncode == 0, f"the README's example: {checked.stdout}{checked.stderr}")
    report(f"{version}; mypy --strict takes the README's example")


def serve(environment: Environment, folder: Path) -> None:
    """Start `wavetrim serve` away from the clone, wait for readiness, and stop it."""
    port = find_free_port()
    service = environment.start(
        *("serve", "--host", "127.0.0.1", "--port", str(port)),
        *("--data-dir", str(folder / "data")),
    )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", is_running=lambda: service.poll() is None)
        for path in ("/", "/page/main.js", "/page/recorded.js", "/page/vendor/swagger-ui.css"):
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                expect(len(answer.read()) > 100, f"{path} is empty")
        service.send_signal(signal.SIGTERM)
        status = service.wait(timeout=30)
    finally:
        if service.poll() is None:
            service.kill()
            service.wait()
    expect(status == 0, f"the service ended with {status} after SIGTERM, not 0")
    report("served /healthz/ready and the pages, and ended with 0 after SIGTERM")


def expect(holds: bool, otherwise: str) -> None:
    """End the test with a message where something does not hold."""
    if not holds:
        raise SystemExit(f"wheel-test: {otherwise}")


def report(line: str) -> None:
    """Print what was checked."""
    sys.stdout.write(f"wheel-test: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
