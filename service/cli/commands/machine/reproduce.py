"""`wavetrim reproduce`: the experiments of the reference programs, on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from wavetrim.service.cli.commands.machine.reports import read_numbers, run_report
from wavetrim.service.cli.sizes import K, M, N, NamedK, NamedM, NamedN, choose_sizes

EXAMPLES: Final = """[bold]Examples[/]

wavetrim reproduce compara-kernels
wavetrim reproduce mulmat 224 256 192 --w 32
wavetrim reproduce hybrid-f --f 0,4,8,16,24,32 --out figures
"""

HELP: Final = (
    "Run an experiment of the reference programs on this machine's GPU, and write its results as"
    " Markdown, CSV and PNG, with the reference's own figures."
)

_Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="DIR", file_okay=False, help="Folder for the Markdown, CSV and PNG files."
    ),
]
_OUT: Final = Path("wavetrim-reproduce")
_W = Annotated[int, typer.Option("--w", min=1, help="Width of the kernel's tile.")]
_Kernel = Annotated[str, typer.Option(help="A kernel of the catalog with W x W tiles.")]
_Sizes = Annotated[str, typer.Option(metavar="N,N,…", help="Values of N.")]
_Widths = Annotated[str, typer.Option("--w", metavar="W,W,…", help="Widths of the tile.")]
_Stride = Annotated[int | None, typer.Option(min=1, show_default="16 more than the columns")]


def compara_kernels(
    *,
    sizes: _Sizes = "512,1024,2048,4096",
    widths: _Widths = "4,8,16,32",
    out: _Out = _OUT,
) -> None:
    """Compare the kernels simple, coalesced and shared on C[N,N] = A[N,W]·B[W,N]: Tables 1–9."""
    from wavetrim.lab.experiments.compara_kernels import NAME, run_experiment

    numbers = read_numbers("--sizes", sizes), read_numbers("--w", widths)
    run_report(NAME, out, lambda bench: run_experiment(bench, *numbers))


def mulmatcua(
    *,
    sizes: _Sizes = "512,1024,2048,4096",
    widths: _Widths = "4,8,16,32",
    kernel: _Kernel = "shared",
    out: _Out = _OUT,
) -> None:
    """Multiply square matrices with tiles of each width: Tables 10–16, times and GFLOP/s."""
    from wavetrim.lab.experiments.mulmatcua import NAME, run_experiment

    numbers = read_numbers("--sizes", sizes), read_numbers("--w", widths)
    run_report(NAME, out, lambda bench: run_experiment(bench, *numbers, kernel))


def mulmat(
    m: M = None,
    n: N = None,
    k: K = None,
    *,
    named_m: NamedM = None,
    named_n: NamedN = None,
    named_k: NamedK = None,
    w: _W = 32,
    kernel: _Kernel = "shared",
    out: _Out = _OUT,
) -> None:
    """Multiply rectangular matrices, and show the grid: S x T blocks that take R steps each.

    M, N and K are 224, 256 and 192 if they are not given.
    """
    from wavetrim.lab.experiments.mulmat import NAME, run_experiment
    from wavetrim.scheduler.problem import GemmProblem

    typed = (m, n, k), (named_m, named_n, named_k)
    chosen = choose_sizes(*typed, (224, 256, 192))
    problem = GemmProblem(*chosen)
    run_report(NAME, out, lambda bench: run_experiment(bench, problem, w, kernel))


def hybrid_f(
    m: M = None,
    n: N = None,
    k: K = None,
    *,
    named_m: NamedM = None,
    named_n: NamedN = None,
    named_k: NamedK = None,
    w: _W = 4,
    f: Annotated[
        str, typer.Option("--f", metavar="F,F,…", help="Rows of C that the CPU computes.")
    ] = "0,4,8,16,24,32",
    kernel: _Kernel = "shared",
    out: _Out = _OUT,
) -> None:
    """Give the last F rows to the CPU: seconds of kernel, transfer, GPU and CPU: Table 17.

    M, N and K are 2048 if they are not given.
    """
    from wavetrim.lab.experiments.hybrid_f import NAME, run_experiment
    from wavetrim.scheduler.problem import GemmProblem

    typed = (m, n, k), (named_m, named_n, named_k)
    chosen = choose_sizes(*typed, (2048, 2048, 2048))
    problem, rows = GemmProblem(*chosen), read_numbers("--f", f, least=0)
    run_report(NAME, out, lambda bench: run_experiment(bench, problem, w, rows, kernel))


def matmatgpu(
    m: M = None,
    n: N = None,
    k: K = None,
    *,
    named_m: NamedM = None,
    named_n: NamedN = None,
    named_k: NamedK = None,
    lda: _Stride = None,
    ldb: _Stride = None,
    ldc: _Stride = None,
    out: _Out = _OUT,
) -> None:
    """Add A·B to C in float64 with leading dimensions, by both kernels; padding stays untouched.

    M, N and K are 2000, 2100 and 1900 if they are not given.
    """
    from wavetrim.lab.experiments.matmatgpu import NAME, LeadingDimensions, run_experiment
    from wavetrim.scheduler.problem import GemmProblem

    typed = (m, n, k), (named_m, named_n, named_k)
    chosen = choose_sizes(*typed, (2000, 2100, 1900))
    problem, strides = GemmProblem(*chosen, "float64"), LeadingDimensions(lda, ldb, ldc)
    run_report(NAME, out, lambda bench: run_experiment(bench, problem, strides))


def sdk_multiply(
    m: M = None,
    n: N = None,
    k: K = None,
    *,
    named_m: NamedM = None,
    named_n: NamedN = None,
    named_k: NamedK = None,
    w: _W = 32,
    kernel: _Kernel = "shared",
    out: _Out = _OUT,
) -> None:
    """Multiply random matrices and compare with the CPU's product: PASSED, or what differs.

    M, N and K are 160, 256 and 96 if they are not given.
    """
    from wavetrim.lab.experiments.sdk_multiply import NAME, run_experiment
    from wavetrim.scheduler.problem import GemmProblem

    typed = (m, n, k), (named_m, named_n, named_k)
    chosen = choose_sizes(*typed, (160, 256, 96))
    problem = GemmProblem(*chosen)
    run_report(NAME, out, lambda bench: run_experiment(bench, problem, w, kernel))


EXPERIMENTS: Final[dict[str, Callable[..., None]]] = {
    "compara-kernels": compara_kernels,
    "mulmatcua": mulmatcua,
    "mulmat": mulmat,
    "hybrid-f": hybrid_f,
    "matmatgpu": matmatgpu,
    "sdk-multiply": sdk_multiply,
}
"""The experiments, by name."""
