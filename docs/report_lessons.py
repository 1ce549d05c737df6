"""What one learns from each probe: sentences with the figures that were measured."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

Rows = Sequence[Mapping[str, str]]
"""A probe's CSV file."""


def read_lessons(folder: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """Name and sentences of each probe in a folder that holds it, in the order of the names."""
    lessons = []
    for name in names:
        file = folder / f"{name}.csv"
        if file.is_file():
            with file.open(newline="", encoding="utf-8") as lines:
                lessons.append((name, _LESSONS[name](list(csv.DictReader(lines)))))
    return lessons


def _find(rows: Rows, column: str, **wanted: object) -> float:
    """The figure of the one row that has those values."""
    (row,) = (x for x in rows if all(x[name] == str(value) for name, value in wanted.items()))
    return float(row[column])


def _find_most(rows: Rows, column: str) -> int:
    return max(int(row[column]) for row in rows if row[column])


def _learn_strides(rows: Rows) -> str:
    rates = {int(row["stride"]): float(row["gbytes_per_second"]) for row in rows}
    most = max(rates)
    second, eighth, last = (rates[stride] / rates[1] for stride in (2, 8, most))
    return (
        f"At the strides 2, 8 and {most} a copy keeps {second:.0%}, {eighth:.0%} and {last:.0%} of "
        "its rate. Memory moves in segments of 32 bytes, even if less is asked for."
    )


def _learn_offsets(rows: Rows) -> str:
    rates = {int(row["offset"]): float(row["gbytes_per_second"]) for row in rows}
    there = [
        float(row["reference_gbytes_per_second"])
        for row in rows
        if row["reference_gbytes_per_second"]
    ]
    return (
        f"Whatever the offset, {min(rates.values()) / rates[0]:.0%} of the rate or more are left; "
        f"the Tesla M2070 kept {min(there) / max(there):.0%}. The rest of a segment that two warps "
        "share comes from a cache."
    )


def _learn_vectors(rows: Rows) -> str:
    rates = [float(row["gbytes_per_second"]) for row in rows]
    return (
        f"A copy with 4 bytes a thread under way reaches {rates[0]:.0f} GB/s, with more at most "
        f"{max(rates):.0f}. The full rate needs enough bytes under way to cover the memory's "
        "latency."
    )


def _learn_pitches(rows: Rows) -> str:
    tight, pitched = (
        [float(row["gbytes_per_second"]) for row in rows if row["way"] == way]
        for way in ("tight", "pitched")
    )
    gain = max(after / before for before, after in zip(tight, pitched, strict=True)) - 1
    return (
        f"Rows that begin on lines of memory are copied at most {gain:.0%} faster than rows "
        "without gaps: that is what pitched allocation is worth here."
    )


def _learn_loads(rows: Rows) -> str:
    taps = [row for row in rows if row["varied"] == "taps"]
    offsets = [float(row["gbytes_per_second"]) for row in rows if row["varied"] == "offset"]
    most = _find_most(taps, "value")
    cached, uncached = (
        _find(taps, "gbytes_per_second", way=way, value=most) for way in ("cached", "non-cached")
    )
    return (
        "Where each element is wanted once, at any offset, the ways to load are within "
        f"{max(offsets) / min(offsets) - 1:.0%} of one another. Where "
        f"each is wanted {most} times, by neighbours, cached loads serve {cached:.0f} GB/s from "
        f"L1, non-cached ones {uncached:.0f} from L2."
    )


def _learn_transposes(rows: Rows) -> str:
    side = _find_most(rows, "side")
    naive, shared, padded = (
        _find(rows, "gbytes_per_second", way=way, side=side)
        / _find(rows, "gbytes_per_second", way="copy", side=side)
        for way in ("naive", "shared", "padded")
    )
    return (
        f"At {side} rows a transpose reaches {naive:.0%} of a copy's rate with uncoalesced writes, "
        f"{shared:.0%} by a tile in shared memory, and {padded:.0%} if each row of the tile has a "
        "word more, which ends bank conflicts."
    )


def _learn_banks(rows: Rows) -> str:
    cycles = {(row["way"], int(row["step"])): float(row["cycles"]) for row in rows}
    alone = cycles["stride", 1]
    multicast = max(value for (way, _), value in cycles.items() if way == "multicast")
    return (
        f"All lanes in one bank (stride 32) take {cycles['stride', 32] / alone:.1f} times as long "
        f"as lanes with a bank each; the padded tile's stride 33 takes "
        f"{cycles['stride', 33] / alone:.2f} times, a multicast at most {multicast / alone:.2f}."
    )


def _learn_constants(rows: Rows) -> str:
    one, most = (_find(rows, "cycles", way="constant", words=words) for words in (1, 32))
    cached = _find(rows, "cycles", way="read-only", words=32)
    return (
        f"Constant memory serves one word to a whole warp in {one:.1f} cycles. It serves 32 "
        f"different words one after the other, in {most:.0f} cycles; the read-only cache takes "
        f"{cached:.1f}."
    )


def _learn_registers(rows: Rows) -> str:
    seconds = [float(row["median_seconds"]) for row in rows]
    fit, last = [row for row in rows if row["spill_bytes"] == "0"][-1], rows[-1]
    return (
        f"With launch bounds for {fit['blocks_per_sm']} blocks a thread has {fit['registers']} "
        f"registers, and nothing spills. With those for {last['blocks_per_sm']} it has "
        f"{last['registers']}, {last['spill_bytes']} bytes spill, and the work takes "
        f"{seconds[-1] / min(seconds):.1f} times as long as at best."
    )


def _learn_transfers(rows: Rows) -> str:
    copies = [row for row in rows if row["direction"]]
    size = _find_most(copies, "size_bytes")
    rates = {
        way: "/".join(
            f"{_find(copies, 'gbytes_per_second', way=way, direction=to, size_bytes=size):.0f}"
            for to in ("in", "out", "both")
        )
        for way in ("pageable", "pinned")
    }
    locked = max(int(row["size_bytes"]) for row in rows if row["way"] == "register")
    register, allocate = (
        1e3 * _find(rows, "median_seconds", way=way, size_bytes=locked)
        for way in ("register", "allocate")
    )
    return (
        f"Pinned memory is copied at {rates['pinned']} GB/s (in/out/both ways together), pageable "
        f"memory, which CUDA stages, at {rates['pageable']}. Locking {locked >> 20} MiB in place "
        f"takes {register:.1f} ms, allocating it locked {allocate:.0f} ms."
    )


def _learn_overlap(rows: Rows) -> str:
    first, best = rows[0], min(rows, key=lambda row: float(row["median_seconds"]))
    before, after, least = (
        1e3 * float(value)
        for value in (first["median_seconds"], best["median_seconds"], best["least_seconds"])
    )
    return (
        f"{before:.1f} ms on {first['streams']} stream become {after:.1f} ms on {best['streams']}. "
        f"The least is {least:.1f}: the slowest part alone, and one chunk of the others. Copies "
        "in, kernels and copies out run at once."
    )


def _learn_row_copies(rows: Rows) -> str:
    waited = sum(row["waited"] == "True" for row in rows)
    apart = [row for row in rows if row["row_bytes"] != "0"]
    slowest = min(float(row["size_bytes"]) / float(row["alone_seconds"]) / 1e9 for row in apart)
    outcome = (
        f"{waited} of {len(rows)} copies waited for the kernel that filled the GPU"
        if waited
        else "No copy waited for the kernel that filled the GPU: copy engines took them all"
    )
    return f"{outcome}. On an idle GPU none was slower than {slowest:.1f} GB/s."


def _learn_launches(rows: Rows) -> str:
    last = rows[-1]
    kernels = int(last["kernels"])
    one, many = (1e3 * float(last[f"{way}_seconds"]) for way in ("one_stream", "many_streams"))
    call = 1e6 * float(last["enqueue_seconds"]) / kernels
    return (
        f"{kernels} kernels of one block take {one:.1f} ms in one stream and {many:.1f} ms in a "
        f"stream each. A call returns after {call:.0f} µs."
    )


def _learn_peers(rows: Rows) -> str:
    size = _find_most(rows, "size_bytes")
    rates = ", ".join(
        f"{way} {_find(rows, 'gbytes_per_second', way=way, direction='both', size_bytes=size):.0f}"
        for way in dict.fromkeys(row["way"] for row in rows)
    )
    return f"Copies of {size >> 20} MiB between GPUs, both ways at once, in GB/s: {rates}."


def _learn_waves(rows: Rows) -> str:
    of_kernel = [row for row in rows if (row["kernel"], row["dtype"]) == ("shared", "float32")]
    slots = int(of_kernel[0]["slots"])
    last = [row for row in of_kernel if int(row["tiles"]) <= slots][-1]
    following = next(row for row in of_kernel if int(row["tiles"]) > slots)
    before, after = (1e6 * float(row["seconds"]) for row in (last, following))
    return (
        f"With the kernel *shared* in float32, {last['tiles']} tiles take {before:.0f} µs and "
        f"{following['tiles']} take {after:.0f}: a wave more. These steps are what F is chosen by."
    )


def _learn_cpu_rows(rows: Rows) -> str:
    most = _find_most(rows, "m")
    single, double = (
        _find(rows, "gflops", dtype=dtype, m=most) for dtype in ("float32", "float64")
    )
    one = _find(rows, "gflops", dtype="float32", m=1)
    return (
        f"{rows[0]['threads']} threads reach {single:.0f} GFLOP/s in float32 and {double:.0f} in "
        f"float64 on {most} rows. On a single row they reach {one:.0f}, as all of B is read for it."
    )


_LESSONS: Final[Mapping[str, Callable[[Rows], str]]] = {
    "strides": _learn_strides,
    "offsets": _learn_offsets,
    "vectors": _learn_vectors,
    "pitches": _learn_pitches,
    "loads": _learn_loads,
    "transposes": _learn_transposes,
    "banks": _learn_banks,
    "constants": _learn_constants,
    "registers": _learn_registers,
    "transfers": _learn_transfers,
    "overlap": _learn_overlap,
    "row-copies": _learn_row_copies,
    "launches": _learn_launches,
    "peers": _learn_peers,
    "waves": _learn_waves,
    "cpu-rows": _learn_cpu_rows,
}
