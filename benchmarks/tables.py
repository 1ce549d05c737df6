"""Writes README.md's measured seconds from results/, and docs/settings.md from `Settings`.

Run `make readme`. What stands between `<!-- NAME -->` and `<!-- /NAME -->` is replaced.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from wavetrim.service.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
SETTINGS = ROOT / "docs" / "settings.md"


def main() -> None:
    """Fills both tables."""
    tables = {
        README: ("main-job", render_main_job(RESULTS)),
        SETTINGS: ("settings", render_settings()),
    }
    for page, (name, body) in tables.items():
        text = page.read_text(encoding="utf-8")
        page.write_text(fill_section(text, name, body), encoding="utf-8")


def fill_section(text: str, name: str, body: str) -> str:
    """Replaces one marked section, whose marks stand on lines of their own or both in one line.

    Raises:
        ValueError: The text does not have this section exactly once.
    """
    pattern = re.compile(rf"(<!-- {name} -->)(\n?).*?(<!-- /{name} -->)", re.DOTALL)
    filled, count = pattern.subn(
        lambda match: f"{match[1]}{match[2]}{body}{match[2]}{match[3]}", text
    )
    if count != 1:
        raise ValueError(f"section {name}: found {count} times, expected once")
    return filled


def render_settings() -> str:
    """The settings table: variable, default, meaning."""
    rows = (
        (f"`{Settings.model_config['env_prefix']}{name.upper()}`", show_default(field), field)
        for name, field in Settings.model_fields.items()
    )
    cells = ((variable, default, field.description or "") for variable, default, field in rows)
    return render_table(("Variable", "Default", "Meaning"), cells)


def show_default(field: FieldInfo) -> str:
    """A default as a person would type it; empty where there is none."""
    extra = field.json_schema_extra
    default = extra.get("default") if isinstance(extra, dict) else field.default
    if default is None:
        return ""
    if isinstance(default, ByteSize):
        return f"`{default.human_readable().replace('.0', '')}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def render_main_job(folder: Path) -> str:
    """One table for each machine measured, the hardware in the line above it."""
    files = sorted(folder.glob("main-job-*.json"))
    documents = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    measured = (document for document in documents if document["hardware"]["gpu"])
    return "\n\n".join(render_machine(document) for document in measured)


def render_machine(document: dict[str, Any]) -> str:
    """Milliseconds of the main job on one machine, medians."""
    hardware, versions = document["hardware"], document["versions"]
    caption = (
        f"{hardware['gpu']}, driver {hardware['driver']}, beside {hardware['cores']} cores of "
        f"{hardware['cpu']}; CuPy {versions['cupy-cuda13x']}, NumPy {versions['numpy']}; "
        f"commit {document['commit']}. Milliseconds, medians:"
    )
    head = ("M = N = K", "type", "F", "predicted", "measured", "GPU alone", "CPU alone", "CuPy")
    return f"{caption}\n\n{render_table(head, map(list_cells, document['rows']))}"


def list_cells(row: dict[str, Any]) -> list[str]:
    """One row of a machine's table. CuPy is `asnumpy(asarray(a) @ asarray(b))`."""
    names = ("predicted", "measured", "gpu_only", "cpu_only", "cupy")
    seconds = (row[f"{name}_seconds"] for name in names)
    return [str(row["m"]), row["dtype"], str(row["f"]), *(f"{s * 1e3:.3g}" for s in seconds)]


def render_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()
