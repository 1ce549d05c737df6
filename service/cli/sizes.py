"""M, N and K of a product: three numbers in this order, or --m, --n and --k, in every command."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from wavetrim.service.cli.exits import CommandFailed, ExitCode

_WORDS = {"M": "Rows of A and C.", "N": "Columns of B and C.", "K": "Columns of A, rows of B."}


def _argument(name: str) -> Any:
    return typer.Argument(metavar=name, help=_WORDS[name], show_default=False)


def _option(name: str) -> Any:
    return typer.Option(
        f"--{name.lower()}",
        metavar=name,
        help=f"The same as {name}.",
        show_default=False,
        rich_help_panel="Product",
    )


M = Annotated[int | None, _argument("M")]
N = Annotated[int | None, _argument("N")]
K = Annotated[int | None, _argument("K")]
NamedM = Annotated[int | None, _option("M")]
NamedN = Annotated[int | None, _option("N")]
NamedK = Annotated[int | None, _option("K")]

Sizes = Sequence[int | None]


def choose_sizes(
    places: Sizes, named: Sizes, default: Sizes = (None, None, None)
) -> tuple[int, int, int]:
    """M, N and K from a command line.

    Args:
        places: The numbers in order; None for those that are missing.
        named: --m, --n and --k.
        default: Their defaults; None for sizes that must be given.

    Raises:
        CommandFailed: A size is missing, or was given twice.
    """
    found = []
    for name, place, option, other in zip("MNK", places, named, default, strict=True):
        if place is not None and option is not None:
            message = f"{name} is given twice, as {place} and as --{name.lower()} {option}"
            raise CommandFailed(message, ExitCode.REFUSED)
        size = next((one for one in (place, option, other) if one is not None), None)
        if size is None:
            message = f"{name} is missing: give M N K in this order, or --m, --n and --k"
            raise CommandFailed(message, ExitCode.REFUSED)
        found.append(size)
    m, n, k = found
    return m, n, k
