"""A Debian base image made by debootstrap, for machines that reach no image registry."""

import shutil
import subprocess
import tempfile
from pathlib import Path

SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv", "ca-certificates")
_LEFTOVERS = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale")


def make_base(archive: Path) -> None:
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
        include = f"--include={','.join(PACKAGES)}"
        command = ["debootstrap", "--variant=minbase", include, SUITE, str(root), *find_mirror()]
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


def find_mirror() -> list[str]:
    """Returns the mirror that this machine's apt takes the suite from; none: debootstrap's own."""
    if shutil.which("apt-get") is None:
        return []
    form = "$(RELEASE) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    targets = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    mirrors = (line.split()[1] for line in targets.splitlines() if line.split()[0] == SUITE)
    return list(mirrors)[:1]
