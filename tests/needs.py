"""What some tests need beside make and Python: programs, and rights on the machine.

    @pytest.mark.needs("nginx")
    def test_something():

`make test` leaves such tests out on every machine; `make test-rest` runs them. There a missing
program fails its tests; where a right is missing, they are skipped.

`python3 -m tests.needs` prints the Debian packages of the programs that are missing here.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Need:
    """A program or a right, and what it is for.

    Attributes:
        commands: Names of its commands, each with its other names; empty for a right.
        packages: Its packages in Debian.
        fixtures: Fixtures that start it: a test that asks for one of them needs it.
    """

    purpose: str
    commands: tuple[tuple[str, ...], ...] = ()
    packages: tuple[str, ...] = ()
    fixtures: tuple[str, ...] = ()

    @property
    def is_missing(self):
        return any(find_command(*names) is None for names in self.commands)


NEEDS = {
    "chromium": Need(
        "the page in a browser",
        (("chromium", "chromium-browser", "google-chrome"),),
        ("chromium", "fonts-dejavu-core"),
        fixtures=("browser",),
    ),
    "postgresql": Need(
        "a database of PostgreSQL",
        (("initdb",), ("pg_ctl",)),
        ("postgresql",),
        fixtures=("postgres",),
    ),
    "nginx": Need("a proxy before the service", (("nginx",),), ("nginx-light",)),
    "prometheus": Need("metrics and alerts", (("prometheus",), ("promtool",)), ("prometheus",)),
    # Before 1.21 kubectl's kustomize is too old: the tests then say so.
    "kustomize": Need("deploy/kubernetes", (("kustomize", "kubectl"),), ("kubernetes-client",)),
    "systemd": Need("the unit of the service", (("systemd-analyze",),), ("systemd",)),
    "cc": Need("the C under its sanitizers", (("gcc", "clang"),), ("gcc", "libc6-dev")),
    "c++": Need("a kernel's walk on the host", (("c++",),), ("g++",)),
    "curl": Need("the documents' shell sessions", (("curl",),), ("curl",)),
    "generators": Need("clients that are generated; `make generators` fetches what makes them"),
    "root": Need("becoming another user"),
    "mounts": Need("small file systems, which root may mount"),
    "time-group": Need("a control group with half the cores' time, which root may make"),
    "memory-group": Need("a control group with little memory, which root may make"),
}
"""By the name that a mark has."""


def find_command(*names):
    """The path of the first of these commands; None where there is none.

    Debian keeps some out of the PATH. They are looked for only by who has /usr/bin on it: `.ci/run`
    hides all programs by a PATH without it.
    """
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if "/usr/bin" in folders:
        servers = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
        folders += ["/usr/sbin", *map(str, sorted(servers, key=lambda path: -int(path.parts[4])))]
    found = (shutil.which(name, path=os.pathsep.join(folders)) for name in names)
    return next(filter(None, found), None)


def list_packages(names):
    """The packages that a machine lacks of these needs."""
    missing = (NEEDS[name] for name in names if NEEDS[name].is_missing)
    return list(dict.fromkeys(package for need in missing for package in need.packages))


if __name__ == "__main__":
    print(*list_packages(NEEDS))
