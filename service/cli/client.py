"""A service's client, as commands open it; its jobs and matrices by the beginning of their ids."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import typer
from rich.console import RenderableType

from wavetrim.client import Client, ClientError, Matrix, NotFound
from wavetrim.client.client import LOCAL_URL
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.cli import display, options
from wavetrim.service.cli.exits import CommandRefused

_KEY_FILE: Final = "WAVETRIM_API_KEY_FILE"

_ID_CHARACTERS: Final = 32
"""Length of an id."""

_LEAST_CHARACTERS: Final = 4
"""Shortest beginning of an id that is looked up; chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """The options of a command that calls a service."""

    as_json: options.Json = False
    url: options.Url = LOCAL_URL
    api_key: options.ApiKey = None

    @contextlib.contextmanager
    def open(self) -> Iterator[Client]:
        """A client of the service, with the key that is given or in the environment's file."""
        name, key = "--api-key", self.api_key
        try:
            if key is None and (path := os.environ.get(_KEY_FILE)):
                from wavetrim.service.settings import read_key_file  # it takes long to import

                name = f"{_KEY_FILE}:"
                key = read_key_file(Path(path))
            opened = Client(self.url, api_key=key)
        except ValueError as error:
            field, _, rest = str(error).partition(" ")
            named = {"api_key": name, "it": f"{name} it"}.get(field, f"--{field}")
            raise CommandRefused(f"{named} {rest}") from error
        with opened as client:
            try:
                yield client
            except NotFound as error:
                raise CommandRefused(_explain_missing(client, error)) from error

    def show(self, document: object, shown: RenderableType) -> None:
        """Print a document as JSON if that is asked for, else words or a table."""
        if self.as_json:
            display.print_json(document)
        elif isinstance(shown, str):
            typer.echo(shown)
        else:
            display.open_output().print(shown)


def _explain_missing(client: Client, error: NotFound) -> str:
    """Says if the id of a job was given for that of a matrix, or the reverse, and what to do."""
    text, kind = str(error.value), str(error.problem.get("type", "")).rpartition(":")[2]
    with contextlib.suppress(ClientError, FieldError):  # the other kind has none, or several
        if kind == "job-not-found":
            matrix = client.matrix(find_matrix(client, text))
            return f"{text} is a matrix, not a job: `wavetrim download {matrix.id}` fetches it"
        if kind == "matrix-not-found":
            job = client.job(find_job(client, text)).status()
            why = f"it has no result; `wavetrim status {job.id}` shows it"
            result = f"its result is matrix {job.result}" if job.result else why
            return f"{text} is a job, not a matrix: {result}"
    lists = {"job-not-found": "jobs", "matrix-not-found": "matrices"}
    return f"{error}; `wavetrim {lists[kind]}` lists them" if kind in lists else str(error)


def find_job(client: Client, text: str) -> str:
    """The id of a job, of which the beginning is enough if no other has it."""
    return find_id("JOB", text, (job.id for job in client.jobs(page=200)))


def find_matrix(client: Client, text: str) -> str:
    """The id of a matrix, likewise."""
    return find_id("ID", text, (matrix.id for matrix in client.matrices()))


def find_id(name: str, text: str, ids: Iterable[str]) -> str:
    """The only id that begins with a text, or the text itself if none does."""
    if not _LEAST_CHARACTERS <= len(text) < _ID_CHARACTERS:
        return text
    found = [*islice((one for one in ids if one.startswith(text)), 2)]
    if len(found) > 1:
        raise FieldError(name, text, f"the beginning of one id, not of {found[0]} and {found[1]}")
    return found[0] if found else text  # the service says that there is none


@contextlib.contextmanager
def store_files(client: Client, files: Sequence[Path]) -> Iterator[list[Matrix]]:
    """Store .npy files, with progress bars; they are removed again if the block fails."""
    stored: list[Matrix] = []
    try:
        with display.show_bytes(display.open_notes()) as move:
            for number, file in enumerate(files, start=1):
                words = f"upload {file.name}" + (f" ({number})" if len(files) > 1 else "")
                stored.append(client.put(file, digest=True, on_progress=partial(move, words)))
        yield stored
    except BaseException:
        client.discard(stored)
        raise
