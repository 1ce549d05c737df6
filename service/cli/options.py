"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer


def name_file(metavar: str, words: str) -> Any:
    """An argument that names an existing file."""
    return typer.Argument(metavar=metavar, help=words, exists=True, dir_okay=False, readable=True)


def read_path(text: str) -> Path:
    """A path; an empty text would be the current folder.

    Raises:
        typer.BadParameter: It is empty.
    """
    if not text:
        raise typer.BadParameter("it is ''; it must be a path")
    return Path(text)


DataDir = Annotated[
    Path | None,
    typer.Option(
        parser=read_path,
        metavar="DIR",
        help="Folder of the service's database and matrices.",
        show_default="wavetrim-data",
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        help="Element type: float16, bfloat16, float32, float64, complex64, complex128, or an"
        " integer such as int32.",
        rich_help_panel="Product",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        help="Host memory of the operands: pageable, or pinned (page-locked, such as the service's"
        " own), which the GPU accesses directly.",
        rich_help_panel="Product",
    ),
]
Kernel = Annotated[
    str,
    typer.Option(
        help="Kernel of the GPU part: auto, or naive, simple, coalesced, shared, register, bulk,"
        " tensor, cublas.",
        rich_help_panel="Split",
    ),
]
Tile = Annotated[
    str | None,
    typer.Option(
        metavar="TILE",
        help="Tile of that kernel, such as 32 or 64x128x16.",
        show_default="the fastest",
        rich_help_panel="Split",
    ),
]
F = Annotated[
    str,
    typer.Option(
        "--f",
        metavar="ROWS",
        help="Rows of C that the CPU computes: auto, or 0 to M.",
        rich_help_panel="Split",
    ),
]
Accuracy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How exact the GPU's sums are: strict (IEEE, in the order of k), library (as NumPy's),"
        " float32 or float64 (errors as of that type, tensor cores allowed).",
        show_default="library, or the named kernel's",
        rich_help_panel="Split",
    ),
]
Sms = Annotated[
    int | None,
    typer.Option(
        metavar="COUNT",
        help="Multiprocessors that the GPU part may use, from 1.",
        show_default="all",
        rich_help_panel="Split",
    ),
]
Devices = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="GPUs that may be used: none, or indices such as 0,1. In 0+1 GPU 0 computes, and the "
        "link of GPU 1 carries a part of the bytes.",
        show_default="all",
        rich_help_panel="Split",
    ),
]
Alpha = Annotated[float, typer.Option(help="Factor of the product.", rich_help_panel="Product")]
Beta = Annotated[
    float,
    typer.Option(help="Factor of C0; at 0 C0 is not read.", rich_help_panel="Product"),
]
AddendFile = Annotated[
    Path | None,
    typer.Option(
        "--c",
        metavar="C0.npy",
        help="M x N, added beta times.",
        exists=True,
        dir_okay=False,
        readable=True,
        rich_help_panel="Product",
    ),
]
Verify = Annotated[bool, typer.Option("--verify", help="Check the product before it is kept.")]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="C.npy",
        help="File for the product; an existing one is replaced when the product is complete.",
    ),
]
ProfileDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of stored calibrations.",
        show_default="WAVETRIM_PROFILE_DIR, or wavetrim-data/profiles",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Url = Annotated[
    str,
    typer.Option(
        envvar="WAVETRIM_URL",
        help="Address of the service, or the path of its Unix socket.",
        rich_help_panel="Service",
    ),
]


ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="WAVETRIM_API_KEY",
        help="API key, if the service asks for one; or name its file in WAVETRIM_API_KEY_FILE.",
        show_default=False,
        rich_help_panel="Service",
    ),
]

LOCAL_URL = "http://127.0.0.1:8000"
"""Where `wavetrim serve` listens by default."""
