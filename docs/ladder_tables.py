"""Writes the data of the page's ladder: kernels with their measured products, and probes' plots.

service/page/ladder/rungs.js comes from benchmarks/results/kernels-<gpu>.json, docs/kernels.md and
docs/probed/<gpu>/waves.csv, probes.js from docs/probed/<gpu>/. Run `make explorer`, or
`python -m docs.ladder_tables`.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.common.results import Results
from benchmarks.common.tables import RESULTS, ROOT
from benchmarks.kernels.ladder import RUNGS
from benchmarks.kernels.rows import Row, describe, read_kernel_results
from docs.report_lessons import read_lessons
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.compile import KERNEL_SOURCES
from wavetrim.lab.probes.catalog import PROBES
from wavetrim.scheduler.profile.machine import GpuModel
from wavetrim.scheduler.profile.presets import PRESETS

LADDER: Final = ROOT / "service" / "page" / "ladder"

_PROBED: Final = ROOT / "docs" / "probed"
_TERM_PRODUCTS: Final = 6
"""Products of bfloat16 that the kernel tensor computes for one of float32."""


@dataclass(frozen=True, slots=True)
class ProbePlot:
    """A plot of columns of a probe's CSV file.

    Attributes:
        probe: The probe.
        x: Column across.
        y: Column up.
        by: Columns; each of their combinations is a curve.
        x_name: What x is.
        y_name: What y is, with its unit.
        log: Whether x is drawn by its logarithm.
        scale: What y is multiplied by.
        only: Column and value of the rows that are drawn; None for all.
    """

    probe: str
    x: str
    y: str
    x_name: str
    y_name: str = "GB/s"
    by: tuple[str, ...] = ("way",)
    log: bool = True
    scale: float = 1.0
    only: tuple[str, str] | None = None


_RATE: Final = "gbytes_per_second"
PLOTS: Final = (
    ProbePlot("strides", "stride", _RATE, "stride, elements"),
    ProbePlot("offsets", "offset", _RATE, "offset, elements", log=False),
    ProbePlot("vectors", "load_bytes", _RATE, "bytes of a load"),
    ProbePlot("pitches", "columns", _RATE, "columns"),
    ProbePlot("loads", "value", _RATE, "stride, elements", only=("varied", "stride")),
    ProbePlot("loads", "value", _RATE, "offset, elements", log=False, only=("varied", "offset")),
    ProbePlot("loads", "value", _RATE, "taps", log=False, only=("varied", "taps")),
    ProbePlot("transposes", "side", _RATE, "rows"),
    ProbePlot(
        "banks", "step", "cycles", "stride, words", "cycles a read", log=False,
        only=("way", "stride"),
    ),
    ProbePlot("constants", "words", "cycles", "words of a warp", "cycles a read"),
    ProbePlot(
        "registers", "blocks_per_sm", "median_seconds", "blocks a multiprocessor", "ms",
        by=(), log=False, scale=1e3,
    ),
    ProbePlot("transfers", "size_bytes", _RATE, "bytes", by=("way", "direction")),
    ProbePlot("overlap", "streams", "median_seconds", "streams", "ms", by=(), scale=1e3),
    ProbePlot(
        "row-copies", "row_bytes", "alone_seconds", "bytes of a row", "ms",
        by=("gaps", "direction"), scale=1e3,
    ),
    ProbePlot("launches", "kernels", "one_stream_seconds", "kernels, in one stream", "ms",
              by=(), scale=1e3),
    ProbePlot("launches", "kernels", "many_streams_seconds", "kernels, a stream each", "ms",
              by=(), scale=1e3),
    ProbePlot("peers", "size_bytes", _RATE, "bytes", by=("way", "direction")),
    ProbePlot("cpu-rows", "m", "gflops", "rows", "GFLOP/s", by=("dtype",)),
)  # fmt: skip


def main() -> None:
    """Write both files."""
    for name, text in render_ladder().items():
        (LADDER / name).write_text(text, encoding="utf-8")


def render_ladder() -> dict[str, str]:
    """The files' texts by name."""
    ladders = [describe_ladder(results) for results in read_kernel_results(RESULTS)]
    probes = [describe_probes(folder) for folder in sorted(_PROBED.iterdir())]
    return {
        "rungs.js": _render("LADDERS", "Kernels with what was measured of them", ladders),
        "probes.js": _render("PROBED", "The probes' plots, with what one learns of them", probes),
    }


def describe_ladder(results: Results[Row]) -> dict[str, Any]:
    """A GPU's roofs, and each kernel in each type with its fastest tile for each product."""
    hardware, rows = results.document["hardware"], results.rows
    folder = _PROBED / results.gpu
    texts, stairs = _read_texts(), _read_stairs(folder / "waves.csv")
    rungs = [
        {
            "name": name,
            "dtype": dtype,
            "text": texts.get((name, dtype)) or texts.get((name, None), ""),
            "sources": list_sources(name, dtype),
            "stairs": stairs.get((name, dtype)),
            "products": _list_products([r for r in rows if (r.kernel, r.dtype) == (name, dtype)]),
        }
        for dtype in sorted({row.dtype for row in rows})
        for name in RUNGS
        if any((row.kernel, row.dtype) == (name, dtype) for row in rows)
    ]
    return {
        "gpu": hardware["gpu"],
        "caption": describe(results),
        "roofs": _list_roofs(hardware["gpu"], folder),
        "rungs": rungs,
    }


def list_sources(name: str, dtype: str) -> list[str]:
    """A kernel's files in kernels/cuda/: its own, then those that it includes."""
    own = {spec.source for spec in list_kernels() if (spec.name, spec.dtype) == (name, dtype)}
    found = [source for source in own if source is not None]
    for source in found:
        text = (KERNEL_SOURCES / source).read_text(encoding="utf-8")
        included = re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
        found += [one for one in included if one not in found]
    return found


def _list_products(rows: Iterable[Row]) -> list[list[Any]]:
    """M, N, K, tile, TFLOP/s and their ratio to cuBLAS's, with the fastest tile of each product."""
    best: dict[tuple[int, int, int], Row] = {}
    for row in rows:
        shape = row.m, row.n, row.k
        if shape not in best or row.tflops > best[shape].tflops:
            best[shape] = row
    return [
        [*shape, row.tile, _round(row.tflops), row.ratio_to_cublas and _round(row.ratio_to_cublas)]
        for shape, row in sorted(best.items())
    ]


def _list_roofs(gpu: str, folder: Path) -> dict[str, Any]:
    """The peak rates of memory and arithmetic: the probes' best, and the data sheet's."""
    model: GpuModel = next(one for one in PRESETS if one.name.split()[0] in gpu.split())
    vectors = _read_rows(folder / "vectors.csv")
    memory = max(float(row[_RATE]) for row in vectors) if vectors else None
    by_terms = model.float16_tensor_gflops / _TERM_PRODUCTS
    return {
        "memory": {
            "rate": _round(memory or model.memory_gbytes_per_second),
            "name": "memory, as measured" if memory else "memory, by the data sheet",
        },
        "float32": [
            ["float32 cores", model.float32_gflops / 1000],
            [f"tensor cores, {_TERM_PRODUCTS} products of bfloat16", _round(by_terms / 1000)],
        ],
        "float64": [
            ["float64 cores", model.float64_gflops / 1000],
            ["tensor cores", model.float64_tensor_gflops / 1000],
        ],
        "float16": [["tensor cores", model.float16_tensor_gflops / 1000]],
        "bfloat16": [["tensor cores", model.float16_tensor_gflops / 1000]],
    }


def _read_texts() -> dict[tuple[str, str | None], str]:
    """The first paragraph on each kernel in docs/kernels.md, by its name and type."""
    text = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    types = r"(?: in (?:b?float\d+(?: and )?)+)?"
    paragraph = rf"^\*\*(\w+)\*\*((?: \([^)]*\))?)({types}) (.+?)\n\n"
    found = re.findall(paragraph, text, re.MULTILINE | re.DOTALL)
    return {
        (name, dtype or None): _strip(f"{name}{where} {words}")
        for name, _, where, words in found
        for dtype in where.removeprefix(" in ").split(" and ")
    }


def _strip(markdown: str) -> str:
    plain = re.sub(r"\s*\(\[[^\]]*\]\([^)]*\)\)", "", markdown)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    return re.sub(r"[*`]", "", " ".join(plain.split()))


def _read_stairs(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Microseconds over tiles, measured and by the fitted staircase, for each kernel and type."""
    stairs: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _read_rows(file):
        one = stairs.setdefault(
            (row["kernel"], row["dtype"]),
            {"tile": row["tile"], "k": int(row["k"]), "slots": int(row["slots"]), "points": []},
        )
        seconds = [_round(1e6 * float(row[name])) for name in ("seconds", "model_seconds")]
        one["points"].append([int(row["tiles"]), *seconds])
    return stairs


def describe_probes(folder: Path) -> dict[str, Any]:
    """The plots of a folder that the probes wrote, in the order of the catalog."""
    names = [probe.name for probe in PROBES]
    lessons = dict(read_lessons(folder, names))
    return {
        "gpu": next(row["gpu"] for row in _read_rows(folder / "waves.csv")),
        "probes": [
            {
                "name": name,
                "lesson": lessons[name],
                "plots": [_draw(plot, folder) for plot in PLOTS if plot.probe == name],
            }
            for name in names
            if name in lessons and any(plot.probe == name for plot in PLOTS)
        ],
    }


def _draw(plot: ProbePlot, folder: Path) -> dict[str, Any]:
    curves: dict[str, list[list[float]]] = {}
    for row in _read_rows(folder / f"{plot.probe}.csv"):
        is_wanted = plot.only is None or row[plot.only[0]] == plot.only[1]
        if is_wanted and row[plot.y]:
            name = " ".join(row[column] for column in plot.by).strip()
            point = [float(row[plot.x]), _round(plot.scale * float(row[plot.y]))]
            curves.setdefault(name, []).append(point)
    return {"x": plot.x_name, "y": plot.y_name, "log": plot.log, "curves": curves}


def _read_rows(file: Path) -> Sequence[Mapping[str, str]]:
    if not file.is_file():
        return ()
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _round(value: float) -> float:
    # As many digits as results have: rounding twice could change the third one, which is shown.
    return float(f"{value:.6g}")


def _render(name: str, meaning: str, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"/** {meaning}; written by docs/ladder_tables.py. */\nexport const {name} = {text};\n"


if __name__ == "__main__":
    main()
