"""`wavetrim submit`: post products to a service as jobs."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from wavetrim.client import Client, Matrix
from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.cli import display, options
from wavetrim.service.cli.client import ServiceOptions, find_matrix, store_files
from wavetrim.service.cli.commands.jobs import wait_for_job
from wavetrim.service.cli.exits import CommandRefused
from wavetrim.service.cli.matrix_files import open_matrix
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.operands import check_operands

_MATRIX_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")

_MOST_PRODUCTS: Final = 1000
"""Jobs that the service takes at once."""

_Product = tuple[str, list[str]]
"""Where a product was named, for refusals; and its A, B and C0, if any: files, or ids."""


def submit(
    a: str | None = None,
    b: str | None = None,
    *,
    listed: Annotated[Path | None, options.existing("--list")] = None,
    c: str | None = None,
    product: options.ProductOptions,
    priority: Annotated[int, typer.Option(min=-1000, max=1000)] = 0,
    label: list[str] | None = None,
    deadline: str | None = None,
    timeout: float | None = None,
    storage: str = "disk",
    wait: bool = False,
    service: ServiceOptions,
) -> None:
    """Upload matrices, post products of them as jobs, and print their ids.

    The result of an earlier job can be an operand: give its matrix id, which `wavetrim status JOB`
    shows, in place of a file. With --list there is a job for each line of a file, and the other
    options apply to each job. All jobs are posted, or none. If they are refused, or the
    command is interrupted before they are posted, the uploaded matrices are removed again.

    Options:
        a (A): M x K: a .npy file or a matrix id.
        b (B): K x N: a .npy file or a matrix id.
        listed (FILE): Post a job for each line: A, a space, B. A comment begins with #.
        priority: A job with a higher priority goes before your other jobs.
        label (LABEL): A name to list and cancel jobs by; may be repeated.
        deadline (TIME): Time by which the job must end, such as 2026-03-01T18:00. A job that would
            end later is refused.
        timeout (SECONDS; the service's limit): How long the job may run.
        storage: Where the result is kept: disk, or memory until the service ends.
        wait: Wait until the job has ended.

    Product:
        c (C0): M x N, added beta times: a .npy file or a matrix id.

    Example:
        python -c "from numpy import *; save('A', eye(512)); save('B', eye(512))"
        wavetrim submit A.npy B.npy --wait
        echo 'A.npy B.npy  # a comment' > products.txt
        echo 'B.npy A.npy' >> products.txt
        wavetrim submit --list products.txt
    """
    if storage not in ("disk", "memory"):
        raise typer.BadParameter(f"it is {storage!r}; it must be disk or memory")
    asked = asdict(product.read(c)) | {
        "alpha": product.alpha,
        "beta": product.beta,
        "verify": product.verify,
        "priority": priority,
        "storage": storage,
        "labels": label,
        "deadline": None if deadline is None else _read_time(deadline),
        "timeout_seconds": timeout,
    }
    products = _name_product(a, b) if listed is None else _read_list(listed, a)
    if c is not None:
        products = [(where, [*names, c]) for where, names in products]
    with service.open() as client:
        found = _find_operands(client, products, product)
        files = {text: one for text, one in found.items() if isinstance(one, Path)}
        with store_files(client, [*files.values()]) as uploaded:
            found |= zip(files, uploaded, strict=True)
            operands = [[found[text] for text in names] for _, names in products]
            if listed is None:
                named = dict(zip("abc", operands[0], strict=False))
                jobs = [client.submit(**(asked | named))]
            else:
                jobs = client.submit_many(operands, **asked)
        if not service.as_json:
            typer.echo("\n".join(job.id for job in jobs))
        for job in jobs if wait else ():
            wait_for_job(job, display.open_notes())
        if service.as_json:
            shown = [job.status().document for job in jobs]
            display.print_json(shown[0] if listed is None else shown)


def _name_product(a: str | None, b: str | None) -> list[_Product]:
    """The product of the command line, as a list of one."""
    if a is None or b is None:
        missing = "A" if a is None else "B"
        raise CommandRefused(
            f"{missing} is missing: name two files or matrices, or --list FILE of such pairs"
        )
    return [("", [a, b])]


def _read_list(file: Path, a: str | None) -> list[_Product]:
    """A product for each line that is not empty."""
    if a is not None:
        raise CommandRefused("submit takes A and B, or --list FILE, not both")
    products = []
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1):
        try:
            names = shlex.split(line, comments=True)
        except ValueError:  # a quote that does not end
            names = [line]
        where = f"{file}, line {number}"
        if names and len(names) != 2:
            raise FieldError(where, line, "two names, of A and B; one with spaces is in quotes")
        if names:
            products.append((f"{where}: ", names))
    if not 1 <= len(products) <= _MOST_PRODUCTS:
        limit = f"1 to {_MOST_PRODUCTS}"
        raise CommandRefused(f"{file} has {len(products)} products; it must have {limit}")
    return products


def _find_operands(
    client: Client, products: Iterable[_Product], asked: options.ProductOptions
) -> dict[str, Matrix | Path]:
    """The operands by what they were named, stored or files, once those of each product fit."""
    found: dict[str, Matrix | Path] = {}
    known: dict[str, Operand] = {}
    for where, names in products:
        try:
            for name, text in zip(("A", "B", "C0"), names, strict=False):
                if text not in known:
                    known[text], found[text] = _find_operand(client, name, text)
            a, b, *c = (known[text] for text in names)
            check_operands(a, b, c[0] if c else None, alpha=asked.alpha, beta=asked.beta)
        except (FieldError, FieldProblem) as error:
            raise CommandRefused(f"{where}{error}") from error
    return found


def _find_operand(client: Client, name: str, text: str) -> tuple[Operand, Matrix | Path]:
    """What a file or an id names."""
    if Path(text).exists():
        return open_matrix(Path(text)), Path(text)
    if not _MATRIX_ID.fullmatch(text):
        raise FieldError(name, text, "a .npy file that is there, or the id of a matrix")
    matrix = client.matrix(find_matrix(client, text))
    *stack, rows, columns = matrix.shape
    return Operand(text, 0, rows, columns, matrix.dtype, stack=stack[0] if stack else None), matrix


def _read_time(text: str) -> datetime:
    """A time, local if it has no zone."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        limit = "a time such as 2026-03-01T18:00, or with its zone 2026-03-01T18:00+02:00"
        raise FieldError("--deadline", text, limit) from error
