"""`wavetrim keys`: keys of several callers, made, listed and revoked while the service runs."""

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from wavetrim.service.cli.options import DataDir

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from wavetrim.service.tenants.tenant import Quota

HELP: Final = """Keys of several callers, each with a name, scopes and quotas.

A running service notices changes within a second or two. The database stores only their hashes."""

EXAMPLES: Final = """[bold]Examples[/]

wavetrim keys add ada
wavetrim keys add dashboard --scope read
wavetrim keys add eve --max-stored-bytes 20GiB --max-queued-jobs 10
wavetrim keys limit eve --max-stored-bytes none --max-bytes-in-flight 4GiB
wavetrim keys list
wavetrim keys renew ada
wavetrim keys revoke ada
"""

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}", re.ASCII)


def _quota(metavar: str, words: str) -> Any:
    return typer.Option(metavar=metavar, help=words, show_default="none", rich_help_panel="Quotas")


MaxStoredBytes = Annotated[
    str | None, _quota("SIZE", "The most that its matrices may take, such as 20GiB.")
]
MaxQueuedJobs = Annotated[str | None, _quota("COUNT", "The most of its jobs that may wait.")]
MaxBytesInFlight = Annotated[
    str | None,
    _quota("SIZE", "The most that its uploads, products in one call and leases may hold at once."),
]


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the caller.")],
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="SCOPE",
            help="read (look), compute (store, compute, remove) or admin (all); several times.",
        ),
    ] = ["read", "compute"],  # noqa: B006
    max_stored_bytes: MaxStoredBytes = None,
    max_queued_jobs: MaxQueuedJobs = None,
    max_bytes_in_flight: MaxBytesInFlight = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, once. From then on every call needs one."""
    from wavetrim.service.errors import FieldProblem
    from wavetrim.service.storage.database.api_keys import add_key
    from wavetrim.service.tenants.tenant import SCOPES, Quota

    if not _NAME.fullmatch(name):
        raise FieldProblem("name", name, "1 to 64 letters, digits, dots, dashes, _ and @")
    for one in scope:
        if one not in SCOPES:
            raise FieldProblem("scope", one, f"one of {', '.join(SCOPES)}")
    quota = Quota(**_read_quotas(max_stored_bytes, max_queued_jobs, max_bytes_in_flight))
    with _open(data_dir) as database:
        typer.echo(add_key(database, name, scope, quota))


def limit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key.")],
    *,
    max_stored_bytes: MaxStoredBytes = None,
    max_queued_jobs: MaxQueuedJobs = None,
    max_bytes_in_flight: MaxBytesInFlight = None,
    data_dir: DataDir = None,
) -> None:
    """Change quotas of a key; those that are not named stay, "none" removes one."""
    from wavetrim.service.errors import FieldProblem
    from wavetrim.service.storage.database.api_keys import limit_key

    most = _read_quotas(max_stored_bytes, max_queued_jobs, max_bytes_in_flight)
    if not most:
        raise FieldProblem("quotas", "none named", "--max-stored-bytes or another one")
    with _open(data_dir) as database:
        limit_key(database, name, most)


def list_(*, data_dir: DataDir = None) -> None:
    """List the keys' names, scopes, times and quotas; the keys themselves are not stored."""
    from wavetrim.service.storage.database.api_keys import list_keys

    with _open(data_dir) as database:
        for key in list_keys(database):
            state = "" if key.revoked_at is None else f"  revoked {_show(key.revoked_at)}"
            scopes = ",".join(sorted(key.tenant.scopes))
            quotas = "".join(f"  {one}" for one in _show_quotas(key.tenant.quota))
            typer.echo(f"{key.tenant.name}  {scopes}  made {_show(key.created_at)}{state}{quotas}")


def renew(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key.")],
    *,
    data_dir: DataDir = None,
) -> None:
    """Make another key for a name and print it, once. The old one is refused from then on."""
    from wavetrim.service.storage.database.api_keys import renew_key

    with _open(data_dir) as database:
        typer.echo(renew_key(database, name))


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key.")],
    *,
    data_dir: DataDir = None,
) -> None:
    """Refuse a key from now on. Its name cannot be used again, and what belongs to it stays."""
    from wavetrim.service.storage.database.api_keys import revoke_key

    with _open(data_dir) as database:
        revoke_key(database, name)
    typer.echo(f"revoked {name}")


COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "add": add, "limit": limit, "list": list_, "renew": renew, "revoke": revoke
}  # fmt: skip


@contextlib.contextmanager
def _open(data_dir: Path | None) -> "Iterator[Engine]":
    """The service's database."""
    from wavetrim.service.cli.machine import load_settings
    from wavetrim.service.storage.database.database import open_database
    from wavetrim.service.storage.folder.data_folder import keep_private

    with keep_private():
        database = open_database(load_settings(data_dir=data_dir).database, upgrades=False)
        try:
            yield database
        finally:
            database.dispose()


def _read_quotas(
    stored_bytes: str | None, queued_jobs: str | None, bytes_in_flight: str | None
) -> dict[str, int | None]:
    """The quotas that are named; None removes one."""
    named = {
        "stored_bytes": stored_bytes,
        "queued_jobs": queued_jobs,
        "bytes_in_flight": bytes_in_flight,
    }
    return {field: _read_quota(field, text) for field, text in named.items() if text is not None}


def _read_quota(field: str, text: str) -> int | None:
    from pydantic import ByteSize, TypeAdapter, ValidationError

    from wavetrim.service.errors import FieldProblem

    if text == "none":
        return None
    kind: type = int if field == "queued_jobs" else ByteSize
    try:
        most = int(TypeAdapter(kind).validate_python(text))
    except ValidationError:
        most = -1
    if not 0 <= most < 2**63:
        words = "a count" if kind is int else "a size such as 20GiB"
        raise FieldProblem(f"--max-{field.replace('_', '-')}", text, f"{words}, or none")
    return most


def _show_quotas(quota: "Quota") -> Iterator[str]:
    """A key's quotas in words."""
    from wavetrim.service.cli.terminal.units import format_bytes

    if quota.stored_bytes is not None:
        yield f"stores at most {format_bytes(quota.stored_bytes)}"
    if quota.queued_jobs is not None:
        yield f"queues at most {quota.queued_jobs} jobs"
    if quota.bytes_in_flight is not None:
        yield f"at most {format_bytes(quota.bytes_in_flight)} in flight"


def _show(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
