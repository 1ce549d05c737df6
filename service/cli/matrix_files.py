"""The .npy files that a command reads and writes."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from wavetrim.client.downloads import write_partial
from wavetrim.client.npy import describe_place
from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.cli import display
from wavetrim.service.cli.exits import CommandFailed
from wavetrim.service.errors import BodyLengthWrong, FieldProblem
from wavetrim.service.storage.errors import NpyError
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES, Layout, parse_header


def open_matrix(path: Path) -> Operand:
    """The matrix of a .npy file, by its header, which is read as strictly as in the service."""
    if not path.is_file():
        raise FieldError(str(path), describe_place(path), "a regular file, which can be mapped")
    with path.open("rb") as file:
        prefix = file.read(12 + MAX_HEADER_BYTES)
        size_bytes = os.fstat(file.fileno()).st_size
    try:
        header = parse_header(prefix)
        if header is None:
            found = f"{len(prefix)} bytes long" if prefix else "empty"
            raise NpyError("header", found, "a whole .npy header")
        if size_bytes != header.file_bytes:
            limit = f"{header.file_bytes} bytes, as its header says ({header})"
            raise BodyLengthWrong("length", size_bytes, limit)
    except FieldProblem as error:
        raise type(error)(f"{path}: {error.field}", error.value, error.limit) from error
    return header.address(str(path), header.offset_bytes)


def check_output(output: Path, **operands: Path) -> None:
    """Refuse an output file that cannot be written, or that is one of the operands."""
    if not output.resolve().parent.is_dir():
        raise FieldError("--output", str(output), "in a folder that exists")
    if not output.exists():
        return
    if not output.is_file():
        raise FieldError("--output", str(output), "the name of an ordinary file")
    for name, path in operands.items():
        if output.samefile(path):
            raise FieldError("--output", str(output), f"another file than operand {name}")


@contextlib.contextmanager
def write_matrix(output: Path, problem: GemmProblem, stack: int | None) -> Iterator[Operand]:
    """A file into which the engine writes the product by mapping it.

    It gets the name `output` when the block succeeds; otherwise nothing is left.
    """
    layout = Layout(problem.m, problem.n, problem.dtype, stack=stack)
    header = layout.format_header()
    size_bytes = len(header) + layout.data_bytes
    with write_partial(output) as file:
        try:
            # Blocks are taken now: a full disk fails here, and not in a mapped page.
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        except OSError as error:
            room = f"no room for {display.format_bytes(size_bytes)}"
            raise CommandFailed(f"{output}: {room}: {error.strerror}") from error
        file.write(header)
        file.flush()
        yield layout.address(file.name, len(header))
