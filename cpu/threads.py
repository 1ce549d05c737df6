"""Cores and threads that this process can use, and the limit of BLAS to one thread.

In a container the machine's number of cores says little: a process may be bound to some of them,
and its control group, or any group above it, may have a CPU quota.
"""

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

import threadpoolctl

_V2_MOUNTS: tuple[str, ...] = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
_V1_MOUNTS: tuple[str, ...] = (
    "sys/fs/cgroup/cpu,cpuacct",
    "sys/fs/cgroup/cpuacct,cpu",
    "sys/fs/cgroup/cpu",
)

_BURST: Final = 2
"""Most cores at a time, as a multiple of a quota. Chosen: then the process is throttled for at most
half of each period."""

THREAD_LIMITS: Final = (
    *("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"),
    *("MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
)
"""Variables that bound the threads of OpenMP, and of libraries that multiply matrices."""

_OPENBLAS: Final = tuple(
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "_64", "")
)
"""Functions that tell and set the number of threads, in builds of OpenBLAS."""

_Threads: TypeAlias = tuple[Callable[[], int], Callable[[int], object]]
"""Functions that tell and set a library's number of threads."""


class BlasLimit:
    """Limits every loaded BLAS to one thread while at least one product runs.

    Other code in the process has BLAS's threads between products.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may compute, too
        self._products = 0
        self._libraries: list[_Threads] | None = None
        self._threads: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            self._products += 1
            if self._products == 1:
                self._limit()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._products = max(0, self._products - 1)  # `end` forgets those that run
            if self._products == 0:
                self._restore()

    def run(self, compute: Callable[..., object], *arguments: Any) -> None:
        """Call a function that computes a product, in one thread."""
        try:
            with self:
                compute(*arguments)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Give BLAS its threads back after an interrupt, which may have left it limited.

        A product that runs meanwhile in another thread may get them, too.
        """
        with self._lock:
            self._products = 0
            self._restore()

    def _limit(self) -> None:
        if self._threads:  # a signal handler has interrupted `_restore`
            return
        if self._libraries is None:  # the search takes milliseconds, so it is done once
            found = threadpoolctl.ThreadpoolController().select(user_api="blas")
            self._libraries = [_find_threads(library) for library in found.lib_controllers]
        self._threads = [tell() for tell, _ in self._libraries]
        for _, change in self._libraries:
            change(1)

    def _restore(self) -> None:
        if self._threads:
            for (_, change), count in zip(self._libraries or (), self._threads, strict=True):
                change(count)
            self._threads = []


def _find_threads(library: Any) -> _Threads:
    """The functions of a library that threadpoolctl found.

    If it is an OpenBLAS with threads of its own, these are its own functions: threadpoolctl's obey
    only the first thread that calls them, as long as it lives.
    """
    if library.internal_api == "openblas" and library.threading_layer != "openmp":
        for tell, change in _OPENBLAS:
            if hasattr(library.dynlib, tell):
                return getattr(library.dynlib, tell), getattr(library.dynlib, change)
    return library.get_num_threads, library.set_num_threads


blas_limit: Final = BlasLimit()


def count_default_threads() -> int:
    """Threads of the CPU's part if no setting says how many, at least 1.

    THREAD_LIMITS count: joblib and Dask set these variables in processes that share the cores.
    """
    limits = [_read_limit(os.environ.get(name, "")) for name in THREAD_LIMITS]
    return min([usable_cores(), *(limit for limit in limits if limit)])


def _read_limit(text: str) -> int:
    """The first number of a list such as "4,2"; 0 if there is none."""
    first = text.partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() else 0


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process can keep busy while it computes a product, at least 1.

    A quota limits the mean over a period of 0.1 s. A shorter product may use more cores; then the
    process waits for its next period.

    Args:
        root: Folder that contains proc/ and sys/.

    Returns:
        min(cores in the affinity mask, ⌊2 quota / period⌋ of the process's control group and of
        every group above it), version 1 and 2.
    """
    cores = len(os.sched_getaffinity(0))
    quotas = read_cpu_quotas(root)
    return max(1, min([cores, *(math.floor(_BURST * quota) for quota in quotas)]))


def read_cpu_quotas(root: Path) -> list[float]:
    """CPU quota, in cores, of each control group around this process; empty if unlimited.

    Args:
        root: Folder that contains proc/self/cgroup and sys/fs/cgroup.
    """
    try:
        membership = (root / "proc/self/cgroup").read_text()
    except OSError:
        return []
    quotas = []
    for hierarchy, controllers, group in parse_membership(membership):
        if hierarchy == 0:
            mounts, read = _V2_MOUNTS, _read_v2_quota
        elif "cpu" in controllers:
            mounts, read = _V1_MOUNTS, _read_v1_quota
        else:
            continue
        for mount in mounts:
            for folder in list_ancestors(root / mount, group):
                with suppress(OSError, ValueError):  # there is no limit
                    quotas.append(read(folder))
    return [quota for quota in quotas if quota is not None]


def parse_membership(text: str) -> list[tuple[int, tuple[str, ...], str]]:
    """The lines of /proc/self/cgroup as (hierarchy, controllers, path of the group)."""
    groups = []
    for line in text.splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if hierarchy.isdigit() and group:
            groups.append((int(hierarchy), tuple(controllers.split(",")), group))
    return groups


def list_ancestors(mount: Path, group: str) -> Iterator[Path]:
    """The folder of a group under a mount point, then its parents up to the mount point.

    In a container the path may be that on the host, while the group itself is the mount point. So
    the mount point is always included.
    """
    inner = PurePosixPath(group.lstrip("/"))
    names = [] if ".." in inner.parts else [inner, *inner.parents]
    seen = set()
    for name in (*names, PurePosixPath()):
        if name not in seen:
            seen.add(name)
            yield mount / name


@cache
def limit_blas_threads() -> None:
    """Limit every loaded BLAS to one thread until the process ends. Thread-safe.

    BLAS's threads would compete with the pool's for the cores.
    """
    blas_limit.__enter__()


def _read_v2_quota(folder: Path) -> float | None:
    """Quota in cores by cpu.max ("200000 100000" or "max 100000"); None for no limit."""
    quota, period = (folder / "cpu.max").read_text().split()
    return None if quota == "max" else float(quota) / float(period)


def _read_v1_quota(folder: Path) -> float | None:
    """Quota in cores by cpu.cfs_quota_us, which is -1 for no limit."""
    quota, period = (int((folder / f"cpu.cfs_{one}_us").read_text()) for one in ("quota", "period"))
    return quota / period if quota > 0 else None
