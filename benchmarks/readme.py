"""Writes the README's seconds and docs/operations.md's faults from results/, and docs/settings.md.

Run `make readme`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from benchmarks.common.tables import (
    README,
    RESULTS,
    ROOT,
    fill_section,
    render_table,
    show,
    write_page,
)
from benchmarks.faults import WRONG
from benchmarks.host.gains import render_gains
from wavetrim.service.settings import Settings

SETTINGS = ROOT / "docs" / "settings.md"
OPERATIONS = ROOT / "docs" / "operations.md"

SETTING_GROUPS: Final = {
    "Where it listens": (
        "host", "port", "tcp", "unix_socket", "tls_certificate", "tls_key",
    ),
    "Who may call": (
        "api_key_file", "api_key", "jwt_issuer", "jwt_audience", "jwt_jwks", "metrics", "docs",
        "cors_origins",
    ),
    "Where data is kept": (
        "data_dir", "kernel_cache_dir", "profile_dir", "database_url",
    ),
    "How much is kept, and how long": (
        "max_matrix_bytes", "max_storage_bytes", "matrix_ttl_seconds",
        "job_ttl_seconds",
    ),
    "Shared memory": (
        "arena_bytes",
    ),
    "How much is taken at once": (
        "max_queued_jobs", "max_connections",
    ),
    "What computes": (
        "devices", "cpu_threads", "gpu_memory_bytes", "ray_address",
    ),
    "Tries and time-outs": (
        "job_timeout_seconds", "stall_seconds", "drain_seconds",
    ),
    "The log": ("log_level", "log_format", "traces"),
}  # fmt: skip
"""The settings in the order of the page, by its headings."""

FAULT_GROUPS: Final = {
    "engine or service is killed, stopped or hangs": ("kill-", "stop-", "engine-"),
    "the database is locked, restored or restarted": ("database-",),
    "an operand's file is changed or replaced": ("file-",),
    "the same, and the engine reads the file itself": ("mapped-file-",),
    "disk, arena, /dev/shm, memory or descriptors are used up": (
        "disk-", "arena-", "shared-memory-", "few-", "small-group",
    ),
    "callers stall, trickle or vanish": ("bad-callers",),
}  # fmt: skip
"""What the page says of faults whose names begin alike."""


def main() -> None:
    """Fill all three pages."""
    write_page(README, fill_readme)
    write_page(SETTINGS, fill_settings)
    write_page(OPERATIONS, fill_operations)


def fill_readme(text: str) -> str:
    """The README with its measured seconds."""
    return fill_section(text, "gains", render_gains(RESULTS))


def fill_settings(text: str) -> str:
    """The page of settings: for each group variable, default and meaning."""
    groups = (f"## {title}\n{render_settings(names)}" for title, names in SETTING_GROUPS.items())
    return fill_section(text, "settings", "\n\n".join(groups))


def render_settings(names: Sequence[str]) -> str:
    """The table of some settings."""
    prefix = Settings.model_config["env_prefix"]
    fields = ((name, Settings.model_fields[name]) for name in names)
    cells = (
        (f"`{prefix}{name.upper()}`", show_default(field), field.description or "")
        for name, field in fields
    )
    return render_table(("Variable", "Default", "Meaning"), cells)


def fill_operations(text: str) -> str:
    """The page of operations with the faults that were tried."""
    return fill_section(text, "faults", render_faults(RESULTS / "faults.json"))


def show_default(field: FieldInfo) -> str:
    """A default as a user would write it; empty for None."""
    extra = field.json_schema_extra
    default = extra.get("default") if isinstance(extra, dict) else field.default
    if default is None:
        return ""
    if isinstance(default, bool):
        return f"`{default:d}`"
    if isinstance(default, ByteSize):
        return f"`{default.human_readable().replace('.0', '')}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def render_faults(file: Path) -> str:
    """What became of jobs and matrices under faults, below a line with the hardware."""
    document = json.loads(file.read_text(encoding="utf-8"))
    hardware, versions = document["hardware"], document["versions"]
    caption = (
        f"{hardware['cores']} cores of {hardware['cpu']}, Python {versions['python']}, "
        f"commit {document['commit']}:"
    )
    head = ("fault", "tries", "accepted", "failed with reason", "wrong", "worst s")
    groups: dict[str, list[dict[str, Any]]] = {told: [] for told in FAULT_GROUPS}
    for row in document["rows"]:
        groups[find_group(row["fault"])].append(row)
    cells = (list_fault_cells(told, rows) for told, rows in groups.items() if rows)
    return f"{caption}\n\n{render_table(head, cells)}"


def find_group(fault: str) -> str:
    """The words of the group that has a fault."""
    (told,) = (told for told, begins in FAULT_GROUPS.items() if fault.startswith(begins))
    return told


def list_fault_cells(told: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """One row of the table: sums of the faults of a group, and their longest recovery."""
    missing = [row["what"] for row in rows if not row["tries"]]
    if missing:
        told = f"{told}; not tried: {', '.join(missing)}"
    counts = (sum(row[name] for row in rows) for name in ("tries", "accepted", "failed"))
    wrong = sum(row[name] for row in rows for name in WRONG)
    worst = max((row["worst_seconds"] for row in rows if row["tries"]), default=None)
    return [told, *map(str, counts), str(wrong), show(worst, ".1f")]


if __name__ == "__main__":
    main()
