"""Writes what the wave explorer's model reads: the catalog, presets, constants and stored sweeps.

service/page/model/tables.js and sweeps.js are JSON within one line of JavaScript each. Every figure
is read from Python, so that the page cannot differ. Run `make explorer`, or
`python -m docs.explorer_tables`.
"""

import json
from dataclasses import asdict, replace
from importlib import import_module
from typing import Any, Final

from benchmarks.common.tables import RESULTS, ROOT
from benchmarks.host.results import HostResults, SweepRow, read_host_results
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import UnknownKernel
from wavetrim.kernels.gemm.splits import count_split_item_bytes
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.profile.estimate import estimate_cpu, estimate_links
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import complete_kernels, complete_rates, describe_gpu

MODEL: Final = ROOT / "service" / "page" / "model"

_CONSTANTS: Final = {
    "kernels.gemm.splits": ("VERDICT_BYTES",),
    "kernels.gemm.tails": ("FIX_UP_STEPS",),
    "kernels.schedule.steps": ("DEPTH_QUANTUM",),
    "kernels.schedule.schedule": ("PAGE_BYTES",),
    "kernels.schedule.buffers": (
        *("_SLOT_ALIGNMENT_BYTES", "_LINE_BYTES", "_VECTOR_BYTES", "MIN_DEPTH"),
    ),
    "kernels.schedule.cuts": (
        *("PANELS", "DRAINS", "DEPTH_STEPS", "WIDTHS", "COLUMN_PARTS"),
        *("_USUAL_PANELS", "_USUAL_DRAIN", "_USUAL_DEPTH_STEPS", "_NEAR"),
    ),
    "cpu.blocks": ("MIN_BLOCK_TERMS", "ELEMENT_TERMS", "LEAST_SHARED", "MOST_TERMS"),
    "scheduler.problem": ("ADDRESSABLE_BYTES", "ITEM_BYTES", "MEMORIES"),
    "scheduler.options": ("ACCURACIES", "DEFAULT_ACCURACY"),
    "scheduler.model.cpu": ("NARROW",),
    "scheduler.model.curves": (
        *("MEMORY_SHARE", "SMALL_PRODUCT_BYTES", "STREAMED_BYTES", "STREAMED_DTYPES"),
        *("STREAMED_ROW_BYTES", "STREAMED_TIMES"),
    ),
    "scheduler.model.gpu_curve": ("_KNOTS", "_PARTS"),
    "scheduler.planning.candidates": ("_LOOSER",),
    "scheduler.planning.split": ("INTERVAL_SHARE", "SPLIT_GAIN"),
    "scheduler.planning.ranking": ("CONSIDERED",),
    "scheduler.model.corrections": ("LEAST_SECONDS",),
    "scheduler.model.device_runs": ("REACH", "UNLIKE", "WEIGHED_RUNS", "ASSUMED", "CALIBRATED"),
    "scheduler.planning.kernel_choice": ("LEAST_LEAD",),
    "scheduler.planning.team_curves": (
        *("ALIKE", "LONG_SECONDS", "LEAST_GAIN", "STEP_COMMANDS", "EXCHANGE_WEIGHT"),
    ),
    "scheduler.profile.joint": (
        *("JOINT_SHARE", "JOINT_DUPLEX_SHARE", "SOCKET_GPUS", "PART_SECONDS"),
        *("SOCKET_OUT_GBYTES_PER_SECOND", "SOCKET_BOTH_GBYTES_PER_SECOND"),
    ),
    "scheduler.profile.store": ("_LANES_AN_SM",),
    "scheduler.profile.estimate": (
        *("PEAK_SHARE", "TILE_SHARE", "LAUNCH_SECONDS", "LINK_SHARE", "CALL_SECONDS"),
        *("STEP_SECONDS", "COPY_SECONDS", "CPU_THREAD_GFLOPS", "PINNED_STRETCH", "START_SECONDS"),
        *("LATE_SECONDS", "ROW_SECONDS"),
        *(
            "MEMORY_STRETCH",
            "WRITE_STRETCH",
            "WRITE_LINK_STRETCH",
            "FILL_SECONDS",
            "ALONE_SECONDS",
            "ALONE_SHARE",
            "COPY_COLUMNS",
        ),
        *("COPIER_GBYTES_PER_SECOND", "COPIED_GBYTES_PER_SECOND", "CACHE_GBYTES_PER_SECOND"),
        *("CPU_WRITE_GBYTES_PER_SECOND", "CPU_READ_GBYTES_PER_SECOND", "STAGED_STRETCH"),
        *("TOGETHER", "_THREADS_AN_SM", "_BLOCKS_AN_SM", "STAGING_THREADS"),
    ),
    "service.api.products.plan_schemas": ("MAX_SIZE",),
}
"""Constants of the model, by the module that uses them."""


def main() -> None:
    """Write both files."""
    for name, text in render_tables().items():
        (MODEL / name).write_text(text, encoding="utf-8")


def render_tables() -> dict[str, str]:
    """The files' texts by name."""
    tables = {
        "constants": collect_constants(),
        "estimates": collect_estimates(),
        "kernels": [describe_kernel(spec) for spec in list_kernels()],
        "presets": [asdict(preset) for preset in PRESETS],
    }
    results = read_host_results(RESULTS)
    swept = [describe_results(one) for one in results if one.regret]
    joint = [describe_results(one) for one in results if _read_joint(one)]
    names = {one["name"] for one in swept}
    sweeps = [*swept, *(one for one in joint if one["name"] not in names)]
    return {
        "tables.js": _render("TABLES", "What the model reads of Python", tables),
        "sweeps.js": _render("SWEEPS", "Measured sweeps over F, from benchmarks/results", sweeps),
    }


def collect_constants() -> dict[str, Any]:
    """The model's constants by name, without the underscore of a private one."""
    return {
        name.removeprefix("_"): _write_keys(vars(import_module(f"wavetrim.{module}"))[name])
        for module, names in _CONSTANTS.items()
        for name in names
    }


def _write_keys(value: Any) -> Any:
    """A constant as JSON has it: keys of several parts become one text."""
    if not isinstance(value, dict):
        return value
    return {
        " ".join(map(str, key)) if isinstance(key, tuple) else key: one
        for key, one in value.items()
    }


def collect_estimates() -> dict[str, Any]:
    """What the rules for unknown machines take for granted, read off examples of one unit each."""
    cpu = estimate_cpu(1)
    one_gflops = next(rate.gflops for rate in cpu.rates if rate.dtype == "float32")
    unknown = DeviceInfo(
        index=0, name="", uuid="", compute_capability=(0, 0), sm_count=1, memory_bytes=1,
        clock_mhz=500, memory_clock_mhz=1, driver_version="", runtime_version="",
    )  # fmt: skip
    gpu = describe_gpu(unknown)
    varying = ("dtype", "gflops", "source", "element_seconds", "read_seconds")
    return {
        "cpu_rate": {k: v for k, v in asdict(cpu.rates[0]).items() if k not in varying},
        "cpu_comparison": {rate.dtype: rate.gflops / one_gflops for rate in cpu.rates},
        "cpu_share": asdict(cpu.beside_gpu[0]),
        "link": asdict(estimate_links(gpu)[0]),
        "derived": {
            "lanes": gpu.float32_gflops,
            "float32_over_float64": gpu.float32_gflops / gpu.float64_gflops,
            "link_gbytes_per_second": gpu.link_gbytes_per_second,
        },
    }


def describe_kernel(spec: KernelSpec) -> dict[str, Any]:
    """What the planner reads of a catalog entry."""
    return {
        "name": spec.name,
        "dtype": spec.dtype,
        "tile": str(spec.tile),
        "tile_m": spec.tile.m,
        "tile_n": spec.tile.n,
        "tile_k": spec.tile.k,
        "tile_spellings": _list_spellings(spec),
        "threads": spec.threads,
        "fills_sm": spec.tiling is not None or spec.source is None,
        "accuracy": spec.accuracy,
        "automatic": spec.automatic,
        "min_compute_capability": spec.min_compute_capability,
        "max_compute_capability": spec.max_compute_capability,
        "persistent": spec.persistent,
        "sms_quantum": spec.sms_quantum,
        "splits_tail": spec.splits_tail,
        "splits_short": spec.splits_short,
        "split_item_bytes": count_split_item_bytes(spec),
        "least_k": spec.least_k,
    }


def _list_spellings(spec: KernelSpec) -> list[str]:
    tile = spec.tile
    spellings = (str(tile), f"{tile.m}x{tile.n}", str(tile.n))
    return [one for one in spellings if _names(spec, one)]


def _names(spec: KernelSpec, spelling: str) -> bool:
    try:
        return find_kernel(spec.name, spec.dtype, spelling) == spec
    except UnknownKernel:
        return False


def describe_results(results: HostResults) -> dict[str, Any]:
    """A results file's machine, all of its GPUs, with its sweeps: what was measured over F."""
    measured = MachineProfile.from_dict(results.document["profile"])
    profile = _describe_machine(complete_rates(measured), f"measured on {results.caption}")
    beside = [_describe_machine(one, profile["source"]) for one in measured.beside]
    for one in beside:
        del one["cpu"]  # the machine's
    several = f"x{len(beside) + 1}" if beside else ""
    return {
        "name": f"host-{results.gpu}{several}",
        "profile": {**profile, "beside": beside},
        "sweeps": [describe_sweep(row) for row in results.regret if len(row.curve) > 2],
    }


def _read_joint(results: HostResults) -> list[Any]:
    """The rates of several GPUs' links together, where a results file has some."""
    return results.document["profile"].get("joint") or []


def _describe_machine(measured: MachineProfile, source: str) -> dict[str, Any]:
    """One GPU of a measured machine, as the page reads it."""
    profile = replace(complete_kernels(measured), source=source).as_dict()
    for name in ("key", "format", "beside"):
        del profile[name]
    return profile


def describe_sweep(row: SweepRow) -> dict[str, Any]:
    """A product and its measured seconds, [F, seconds] by rising F."""
    return {
        "m": row.shape[0],
        "n": row.shape[1],
        "k": row.shape[2],
        "dtype": row.dtype,
        "memory": row.memory,
        "sms": row.sms,
        "curve": [[point[0], point[1]] for point in row.curve],
        "measured": {
            "f": row.f,
            "gpu_seconds": row.measured_seconds["gpu"],
            "cpu_seconds": row.measured_seconds["cpu"],
        },
    }


def _render(name: str, meaning: str, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    head = f"/** {meaning}; written by docs/explorer_tables.py. */"
    return f"{head}\nexport const {name} = {text};\n"


if __name__ == "__main__":
    main()
