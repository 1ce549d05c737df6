"""The tables of docs/settings.md, from the settings' own descriptions."""

from collections.abc import Sequence
from typing import Final

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from benchmarks.common.tables import render_table
from wavetrim.service.settings import Settings

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


def render_settings() -> str:
    """For each group its settings: variable, default and meaning."""
    return "\n\n".join(f"## {title}\n{render_group(of)}" for title, of in SETTING_GROUPS.items())


def render_group(names: Sequence[str]) -> str:
    """The table of some settings."""
    prefix = Settings.model_config["env_prefix"]
    fields = ((name, Settings.model_fields[name]) for name in names)
    cells = (
        (f"`{prefix}{name.upper()}`", show_default(field), field.description or "")
        for name, field in fields
    )
    return render_table(("Variable", "Default", "Meaning"), cells)


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
