"""Arguments and options that several commands share, alone and in groups (`docstrings`).

Options:
    m (M): Rows of A and C.
    n (N): Columns of B and C.
    k (K): Columns of A, rows of B.
    data_dir (DIR; wavetrim-data): Folder of the service's database and matrices.
    output (C.npy): File for the product; an existing one is replaced when the product is complete.
    profile_dir (DIR; WAVETRIM_PROFILE_DIR, or wavetrim-data/profiles): Folder of stored
        calibrations.
    as_json: Print JSON instead of tables.

Product:
    dtype: Element type: float16, bfloat16, float32, float64, complex64, complex128, or an integer
        such as int32.
    memory (KIND): Host memory of the operands: pageable, or pinned (page-locked, such as the
        service's own), which the GPU accesses directly.

Service:
    url: Address of the service, or the path of its Unix socket.
    api_key: API key, if the service asks for one; or name its file in WAVETRIM_API_KEY_FILE.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import PlanOptions, check_devices, check_rows, find_accuracy
from wavetrim.service.cli.exits import CommandRefused


def existing(*names: str) -> Any:
    """An argument that names an existing file; an option, if it has a name."""
    make = typer.Option if names else typer.Argument
    return make(*names, exists=True, dir_okay=False, readable=True)


def read_path(text: str) -> Path:
    """A path; an empty text would be the current folder."""
    if not text:
        raise typer.BadParameter("it is ''; it must be a path")
    return Path(text)


def read_size(field: str, text: str) -> int:
    """A size such as "2GiB" in bytes."""
    from pydantic import ByteSize, TypeAdapter, ValidationError  # plans do without

    try:
        size_bytes = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size_bytes = -1
    if not 0 <= size_bytes < 2**63:
        raise FieldError(field, text, "a size such as 20GiB")
    return size_bytes


DataDir = Annotated[Path | None, typer.Option(parser=read_path)]
Output = Annotated[Path, typer.Option("--output", "-o")]
Json = Annotated[bool, typer.Option("--json")]
Url = Annotated[str, typer.Option(envvar="WAVETRIM_URL")]
ApiKey = Annotated[str | None, typer.Option(envvar="WAVETRIM_API_KEY", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The options of a plan.

    Split:
        kernel: Kernel of the GPU part: auto, or naive, simple, coalesced, shared, register, bulk,
            tensor, cublas.
        tile (TILE; the fastest): Tile of that kernel, such as 32 or 64x128x16.
        f (ROWS): Rows of C that the CPU computes: auto, or 0 to M.
        accuracy (NAME; library, or the named kernel's): How exact the GPU's sums are: strict (IEEE,
            in the order of k), library (as NumPy's), float32 or float64 (errors as of that type,
            tensor cores allowed).
        sms (COUNT; all): Multiprocessors that the GPU part may use, from 1.
        devices (LIST; all): GPUs that may be used: none, or indices such as 0,1.
    """

    kernel: str = "auto"
    tile: str | None = None
    f: str = "auto"
    accuracy: str | None = None
    sms: int | None = None
    devices: str | None = None

    def read(self) -> PlanOptions:
        """The options for the planner."""
        is_number = self.f.isascii() and self.f.isdigit()
        return PlanOptions(
            kernel=self.kernel,
            tile=self.tile,
            f=check_rows(int(self.f) if is_number else self.f),
            accuracy=None if self.accuracy is None else find_accuracy(self.accuracy),
            sms=self.sms,
            devices=check_devices(self.devices),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductOptions(SplitOptions):
    """The options of a product: those of its plan, its factors, and whether it is checked.

    Product:
        alpha: Factor of the product.
        beta: Factor of C0; with 0, C0 is not read.

    Options:
        verify: Check the product before it is kept.
    """

    alpha: float = 1.0
    beta: float = 0.0
    verify: bool = False

    def read(self, c: object = None) -> PlanOptions:
        """The options for the planner.

        Args:
            c: C0, if it is given.
        """
        plan = SplitOptions.read(self)
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not math.isfinite(value):
                raise FieldError(name, value, "a finite number")
        if self.beta and c is None:
            raise CommandRefused(f"--beta is {self.beta:g}, so C0 is needed: --c C0.npy gives it")
        return plan
