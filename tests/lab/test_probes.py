"""Figures, tables, plots and files that probes make of readings, without a GPU."""

import csv
import io
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.environment import ROOT
from tests.lab.probe_reports import (
    climb_waves,
    copy_peers,
    copy_rows,
    hold_registers,
    launch_kernels,
    list_probe_reports,
    load_ways,
    move,
    multiply_rows,
    offset_copies,
    overlap_chunks,
    pitch_copies,
    read_banks,
    stride_copies,
    transfer_memory,
    turn_matrices,
    vector_copies,
)
from tests.lab.reports import HARDWARE
from tests.processes import run_python
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.device import DeviceInfo, list_devices
from wavetrim.kernels.errors import DeviceUnavailable
from wavetrim.lab.gpu.memory import COPY_ELEMENTS, expect_elements
from wavetrim.lab.gpu.overlap import StreamReading, Timeline
from wavetrim.lab.probes import copies, cpu_rows, cycles, loads, transfers, waves
from wavetrim.lab.probes.catalog import PROBES, find_probe
from wavetrim.lab.probes.copies import OFFSET_GBYTES
from wavetrim.lab.probes.links import format_size
from wavetrim.lab.reports.bench import Bench, CpuBench
from wavetrim.lab.reports.report import Report, format_report, write_report
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.profile.machine import KernelModel

PAGE = ROOT / "docs" / "teaching.md"


def read_rows(report: Report, folder: Path) -> list[dict[str, str]]:
    write_report(replace(report, plots=()), folder)
    text = (folder / f"{report.name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("report", list_probe_reports(), ids=lambda report: report.name)
def test_reports_are_written_whole(report: Report, tmp_path: Path) -> None:
    """Their plots are drawn in tests/docs/test_probes.py."""
    assert report.plots
    rows = read_rows(report, tmp_path)
    text = format_report(report)
    assert str(HARDWARE) in text
    for table in report.tables:
        assert table.title in text
        assert {len(row) for row in table.rows} == {len(table.head)}
    assert len(rows) == len(report.rows)
    assert {row["gpu"] for row in rows} == {HARDWARE.gpu}


def test_every_probe_has_a_report_and_a_line_in_the_page() -> None:
    names = [probe.name for probe in PROBES]
    assert names == [report.name for report in list_probe_reports()]
    table = re.findall(r"^\| \[([a-z-]+)\]", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert table == names
    assert all(probe.shows for probe in PROBES)


def test_an_unknown_probe_is_refused_with_the_known_ones() -> None:
    assert find_probe("banks").name == "banks"
    with pytest.raises(FieldError, match="NAME is 'bank'; it must be one of strides, offsets"):
        find_probe("bank")


def test_strided_copies_are_listed_with_those_of_the_reference() -> None:
    table = stride_copies().tables[0]
    assert table.head == ("stride", "copy", "of the first", "Tesla M2070", "of its first")
    assert table.rows[0] == ("1", "1000", "1.00", "106.6", "1.00")
    assert table.rows[2] == ("4", "250.0", "0.25", "", "")
    assert table.rows[3] == ("8", "125.0", "0.12", "7.900", "0.07")


def test_offset_copies_are_listed_with_those_of_the_reference(tmp_path: Path) -> None:
    rows = read_rows(offset_copies(), tmp_path)
    known = {int(row["offset"]): row["reference_gbytes_per_second"] for row in rows}
    assert {o: float(rate) for o, rate in known.items() if rate} == OFFSET_GBYTES


@given(st.integers(1, 2**40))
def test_strides_whose_arrays_do_not_fit_are_left_out(memory_bytes: int) -> None:
    fitting = copies.fit_strides(COPY_ELEMENTS, memory_bytes)
    assert fitting == copies.STRIDES[: len(fitting)]
    assert fitting
    for stride in copies.STRIDES[1:]:
        assert (stride in fitting) == (8 * COPY_ELEMENTS * stride <= memory_bytes)


def test_strides_that_were_left_out_are_named() -> None:
    whole = stride_copies()
    assert not [line for line in whole.findings if "no room" in line]
    short = copies.STRIDED.make_report(
        [move("copy", stride, 9.0) for stride in (1, 2, 4)], HARDWARE
    )
    assert "The GPU has no room for the strides [8, 16, 32]." in short.findings


@given(st.integers(0, 64))
def test_the_degree_of_a_conflict_is_the_most_words_of_one_bank(stride: int) -> None:
    words = {lane * stride for lane in range(32)}
    assert cycles.count_turns(stride) == max(Counter(word % 32 for word in words).values())


def test_cycles_are_listed_with_the_degree_of_conflict() -> None:
    rows = {row[0]: row[1:] for row in read_banks().tables[0].rows}
    assert rows["0"] == ("1", "1.25", "1.00")
    assert rows["16"] == ("16", "20.00", "16.00")
    assert rows["33"] == ("1", "1.25", "1.00")


def test_each_way_to_load_has_a_column_and_missing_readings_an_empty_cell() -> None:
    report = load_ways()
    assert [table.head[0] for table in report.tables] == ["stride", "offset", "taps"]
    assert report.tables[0].head[1:] == ("cached", "non-cached", "read-only", "texture")
    assert report.tables[0].rows[-1][-1] == ""
    assert report.tables[1].rows[0][1:] == ("100.0",) * 4


def test_one_thing_is_varied_at_a_time() -> None:
    assert loads.list_case("stride", 8) == (8, 0, 1)
    assert loads.list_case("offset", 8) == (1, 8, 1)
    assert loads.list_case("taps", 8) == (1, 0, 8)


def test_tables_have_a_column_for_each_way() -> None:
    assert vector_copies().tables[0].head == ("bytes of a load", "1 load", "4 loads")
    assert pitch_copies().tables[0].head == ("columns", "tight", "pitched")
    assert turn_matrices().tables[0].head == ("side", "copy", "naive", "shared", "padded")


def test_spills_and_times_are_listed_for_each_launch_bound() -> None:
    assert hold_registers().tables[0].rows == (
        ("2", "168", "0", "1.000", "1.00"),
        ("8", "64", "640", "2.000", "0.50"),
    )


def test_transfers_show_rates_of_large_copies_and_latencies_of_small_ones() -> None:
    rates, latencies, locks = transfer_memory().tables
    assert [row[1] for row in rates.rows] == ["64 KiB", "1 MiB", "16 MiB", "128 MiB"] * 3
    assert [row[:2] for row in latencies.rows] == [
        (memory, size)
        for memory in ("pageable", "registered", "pinned")
        for size in ("4 B", "4 KiB")
    ]
    assert rates.head == ("memory", "size", "in", "out", "both")
    assert float(latencies.rows[0][2]) == pytest.approx(10, rel=1e-3)
    assert float(rates.rows[-1][2]) == pytest.approx(50, rel=0.01)
    assert locks.rows[0][0] == "1 MiB"


def test_both_ways_at_once_count_twice() -> None:
    row = next(row for row in copy_peers().rows if row["direction"] == "both")
    assert row["copies"] == 2
    assert row["gbytes_per_second"] == pytest.approx(
        2 * row["size_bytes"] / row["median_seconds"] / 1e9
    )


@given(*(st.floats(1e-6, 1) for _ in range(3)), st.integers(1, 64))
def test_no_timeline_is_shorter_than_its_slowest_part(
    into: float, kernel: float, out: float, chunks: int
) -> None:
    found = Timeline(1 << 20, chunks, into, kernel, out, (StreamReading(1, (1.0,), True),))
    assert max(into, kernel, out) <= found.least_seconds * (1 + 1e-12)
    assert found.least_seconds <= found.serial_seconds * (1 + 1e-12)
    if chunks == 1:
        assert found.least_seconds == pytest.approx(found.serial_seconds)


def test_overlap_is_shown_as_a_share_of_the_least() -> None:
    parts, streams = overlap_chunks().tables
    assert [row[1] for row in parts.rows] == ["4.000", "3.000", "2.000", "9.000", "4.312"]
    assert streams.rows[1] == ("2", "4.500", "2.00", "0.96")


def test_copies_that_waited_are_listed() -> None:
    report = copy_rows()
    rows = report.tables[0].rows
    assert rows[0][:3] == ("one piece", "none", "in")
    assert {(row[1], row[-1]) for row in rows} == {("none", "no"), ("host", "no"), ("both", "yes")}
    (told,) = [line for line in report.findings if "copies waited" in line]
    assert told.startswith("12 of 26 copies waited: 256 B in, gaps both; 256 B out, gaps both; ")


def test_kernels_at_once_are_compared_with_kernels_in_a_row() -> None:
    last = launch_kernels().tables[0].rows[-1]
    assert last == ("32", "32.00", "1.000", "32.00", "4.000")


@pytest.mark.parametrize(
    "report",
    [
        stride_copies(right=False),
        read_banks(right=False),
        transfer_memory(right=False),
        multiply_rows(right=False),
    ],
    ids=lambda report: report.name,
)
def test_a_wrong_byte_fails_the_report(report: Report) -> None:
    assert not report.passed
    assert any(line.startswith("WRONG: ") for line in report.findings)
    assert "Every result was right." not in report.findings
    assert all(other.passed for other in list_probe_reports())


@given(st.integers(1, 300), st.integers(1, 16))
def test_the_tiles_of_a_staircase_cover_three_waves(sm_count: int, blocks: int) -> None:
    slots = sm_count * blocks
    quantum, multiples = waves.choose_tiles(sm_count, slots)
    assert sm_count % quantum == 0
    assert quantum <= max(1, sm_count // 4)
    assert multiples[0] >= 1
    assert list(multiples) == sorted(set(multiples))
    assert 3 * slots <= multiples[-1] * quantum < 3 * slots + quantum
    assert len(multiples) <= 24


def test_the_model_rises_at_whole_waves() -> None:
    (row, *rest) = climb_waves().rows
    assert row["model_seconds"] == pytest.approx(2e-6 + 1e-6 + 512e-8)
    times = [row["model_seconds"], *(one["model_seconds"] for one in rest)]
    assert len(set(times[:4])) == 1  # 12 tiles are one wave
    assert times[4] == times[5] > times[3]


def test_the_model_of_a_kernel_with_a_split_tail_rises_with_the_tail() -> None:
    model = KernelModel("bulk", "float32", "128x256x16", 132, 0.0, 0.0, 1e-8, "nowhere")
    stairs = waves.Staircase(model, (), ())
    whole = stairs.predict(132)
    assert whole == pytest.approx(512e-8)
    assert whole < stairs.predict(140) < stairs.predict(200) < stairs.predict(264)
    assert stairs.predict(264) == pytest.approx(2 * whole)


def test_staircases_are_measured_for_the_first_kernel_of_each_name() -> None:
    specs = waves.pick_kernels((9, 0))
    assert {spec.name for spec in specs} == {
        spec.name for spec in list_kernels(compute_capability=(9, 0))
    }
    pairs = [(spec.name, spec.dtype) for spec in specs]
    assert len(set(pairs)) == len(pairs)
    assert "bulk" not in {spec.name for spec in waves.pick_kernels((8, 0))}


def test_the_cpu_is_measured_without_a_gpu() -> None:
    report = cpu_rows.run_probe(CpuBench(cpu_threads=2), rows=(1, 7), side=65, runs=2)
    assert report.passed
    assert report.hardware.gpu == "none"
    assert str(report.hardware).endswith("(2 threads)")
    assert [(row["dtype"], row["m"]) for row in report.rows] == [
        (dtype, m) for dtype in ("float32", "float64") for m in (1, 7)
    ]
    for row in report.rows:
        assert 0 < row["least_seconds"] <= row["median_seconds"]
        assert row["gflops"] == pytest.approx(2e-9 * row["m"] * 65 * 65 / row["median_seconds"])


def test_two_gpus_are_needed_for_copies_between_them(tmp_path: Path) -> None:
    gpu = DeviceInfo(0, "Abacus 9", "GPU-0", (9, 0), 12, 2**30, 1000, 1000, "1.2", "1.2")
    bench = Bench(device=gpu, cache_dir=tmp_path, cpu_threads=1)
    with pytest.raises(DeviceUnavailable, match="the probe peers measures two GPUs"):
        transfers.run_peers(bench)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(4, "4 B"), (1024, "1 KiB"), (1536, "1536 B"), (3 << 20, "3 MiB"), (2 << 40, "2048 GiB")],
)
def test_sizes_are_written_in_the_largest_unit_that_leaves_a_whole_number(
    size_bytes: int, text: str
) -> None:
    assert format_size(size_bytes) == text


def test_expected_elements_are_those_of_the_source() -> None:
    source = np.arange(10_000) % 1024
    for stride, offset in ((1, 0), (3, 0), (8, 5), (1, 1023)):
        wanted = source[offset::stride][:1100]
        np.testing.assert_array_equal(expect_elements(len(wanted), stride, offset), wanted)


def test_the_probes_import_neither_cupy_nor_matplotlib() -> None:
    program = (
        "import sys, wavetrim.lab.probes.catalog; "
        "print({'cupy', 'matplotlib'} & {name.partition('.')[0] for name in sys.modules})"
    )
    answer = run_python(program)
    assert answer.stdout == "set()\n", answer.stderr


@pytest.mark.gpu
def test_a_staircase_is_measured_and_fitted(kernel_cache: Path) -> None:
    bench = Bench(device=list_devices()[0], cache_dir=kernel_cache, cpu_threads=1)
    report = waves.run_probe(bench, [find_kernel("shared", "float32")])
    assert len(report.plots) == 1
    times = [row["seconds"] for row in report.rows]
    assert len(times) > 8
    assert 0 < times[0] < times[-1]
    assert all(row["slots"] % bench.device.sm_count == 0 for row in report.rows)
    last = report.rows[-1]
    assert last["model_seconds"] == pytest.approx(last["seconds"], rel=0.5)
