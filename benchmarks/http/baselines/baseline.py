"""The interface of all baselines, and their names."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks.http.clients.load import Load
from benchmarks.http.clients.product import Product
from benchmarks.http.rows import Case


class Name(StrEnum):
    """Names of baselines in rows and on the command line, in the order of the tables."""

    FLOOR = "floor"
    OURS = "wavetrim"
    FLOOR_UNIX = "floor-unix"
    OURS_CLIENT = "wavetrim-client"
    OURS_UNIX = "wavetrim-unix"
    OURS_V2 = "wavetrim-v2"
    OURS_V2_CLIENT = "wavetrim-v2-client"
    EXECUTOR = "executor"
    OURS_LEASE = "wavetrim-lease"
    OURS_NEW_LEASE = "wavetrim-lease-new"
    NUMPY = "numpy"
    CUPY = "cupy"
    PYTRITON = "pytriton"
    PYTRITON_CLIENT = "pytriton-client"


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of all baselines.

    Attributes:
        folder: Folder of data, logs and sockets; removed at the end.
        profile: A file with the machine's profile; None to calibrate the machine.
        pytriton: The interpreter that has PyTriton.
    """

    folder: Path
    profile: Path | None = None
    pytriton: str = sys.executable

    @property
    def profiles(self) -> Path:
        """Folder of the machine's profile."""
        return self.folder / "profiles"

    @property
    def kernels(self) -> Path:
        """Folder of compiled kernels."""
        return self.folder / "kernels"


class BaselineFailed(Exception):
    """A baseline failed; the message says why."""


class Baseline(ABC):
    """One way to get a product.

    Attributes:
        name: Its name in rows.
    """

    name: str

    @abstractmethod
    def start(self) -> None:
        """Start what it needs.

        Raises:
            ServerAbsent: It does not run here.
        """

    def takes_part(self, case: Case) -> bool:
        """Whether it takes part in a case."""
        del case
        return True

    @abstractmethod
    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Let clients ask for the products for some time.

        Raises:
            WrongAnswer: An answer is not its product.
            BaselineFailed: It failed otherwise.
            OSError: A connection broke.
            AnswerMalformed: An answer is no HTTP.
        """

    def stop(self) -> None:
        """End what was started, if anything."""
        return
