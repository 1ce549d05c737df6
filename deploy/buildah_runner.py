"""The image test's container without a daemon: buildah, in a chroot on the host's network.

Its base image is made by debootstrap, as no image registry may be reached.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.runner import TAG, USER, list_build_options, read, repeat_option, run

_BASE = "localhost/debian-base"
_SUITE = "bookworm"
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_LEFTOVERS = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale")


@dataclass(slots=True)
class BuildahRunner:
    """Builds on a base of debootstrap's and keeps all of its files in one folder.

    A chroot's root is not mounted read-only: the image test looks for writable places instead.
    """

    folder: Path
    name: str = "buildah"
    container: str = "wavetrim-image-test"
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def build(self, arguments: Mapping[str, str], secrets: Mapping[str, Path]) -> None:
        """Imports the base and builds on it; Docker's image format keeps the HEALTHCHECK."""
        archive = self.folder / "debian-base.tar"
        _make_base(archive)
        self.remove()
        scratch = self._read("from", "scratch")
        self._read("add", "--quiet", scratch, str(archive), "/")
        self._read("commit", "--quiet", "--rm", scratch, _BASE)
        options = list_build_options({**arguments, "BASE_IMAGE": _BASE}, secrets)
        chroot = ("--isolation", "chroot", "--format", "docker", "--pull-never", "--layers=false")
        self._read("build", *chroot, *options, "--tag", TAG, ".")
        self._read("from", "--pull-never", "--name", self.container, TAG)
        self._data.mkdir()
        os.chown(self._data, USER, USER)

    def describe(self) -> dict[str, Any]:
        """Returns the Docker part of buildah inspect."""
        image = json.loads(self._read("inspect", "--type", "image", TAG))
        config: dict[str, Any] = image["Docker"]["config"]
        return config

    def measure_bytes(self) -> int:
        """Returns the bytes of the container's files."""
        mounted = self._read("mount", self.container)
        size = int(read(["du", "--summarize", "--bytes", mounted]).split()[0])
        self._read("umount", self.container)
        return size

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Runs what the image names as its entry point."""
        self.environment = dict(environment)
        line = [*self._inside(), *self.describe()["Entrypoint"], *command]
        with log.open("ab") as output:
            self.process = subprocess.Popen(line, stdout=output, stderr=output)
        return self.process

    def execute(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command with the service's files, user and network."""
        return run([*self._inside(), *command])

    def terminate(self) -> None:
        """Signals the service itself, because buildah's own processes pass no signals on."""
        assert self.process is not None
        pid = self.process.pid
        while "buildah" in Path(f"/proc/{pid}/exe").readlink().name:
            (pid,) = _list_children(pid)
        os.kill(pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kills buildah's processes and all that they started, which would outlive them."""
        assert self.process is not None
        for pid in reversed(_list_descendants(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def remove(self) -> None:
        """Removes containers, images and data; the base's archive stays for the next run."""
        if (self.folder / "storage").exists():
            self._read("rm", "--all")
        for name in ("storage", "run", "data"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _read(self, *arguments: str) -> str:
        return read([*self._buildah(), *arguments])

    def _buildah(self) -> list[str]:
        folders = ("--root", f"{self.folder}/storage", "--runroot", f"{self.folder}/run")
        return ["buildah", "--storage-driver", "vfs", *folders]

    def _inside(self) -> list[str]:
        variables = repeat_option("--env", (f"{k}={v}" for k, v in self.environment.items()))
        options = ("--isolation", "chroot", "--volume", f"{self._data}:/data:rw", *variables)
        return [*self._buildah(), "run", *options, self.container, "--"]


def _make_base(archive: Path) -> None:
    """Writes a root file system as a tar archive, unless it is there. Needs root.

    Args:
        archive: The .tar to write.

    Raises:
        subprocess.CalledProcessError: debootstrap or tar failed.
    """
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(".partial")
    with tempfile.TemporaryDirectory(prefix="wavetrim-base-") as folder:
        root = Path(folder) / "root"
        include = f"--include={','.join(_PACKAGES)}"
        command = ["debootstrap", "--variant=minbase", include, _SUITE, str(root), *_find_mirror()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for leftover in _LEFTOVERS:
            shutil.rmtree(root / leftover, ignore_errors=True)
        pack = [
            "tar",
            "--numeric-owner",
            "--exclude=./dev/*",
            "-C",
            str(root),
            "-cf",
            str(partial),
            ".",
        ]
        subprocess.run(pack, check=True)
    partial.rename(archive)


def _find_mirror() -> list[str]:
    """Returns the mirror that this machine's apt takes the suite from; none: debootstrap's own."""
    if shutil.which("apt-get") is None:
        return []
    form = "$(RELEASE) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    targets = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    mirrors = (line.split()[1] for line in targets.splitlines() if line.split()[0] == _SUITE)
    return list(mirrors)[:1]


def _list_children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def _list_descendants(pid: int) -> list[int]:
    return [pid, *(below for child in _list_children(pid) for below in _list_descendants(child))]
