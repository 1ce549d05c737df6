"""`wavetrim probe` and `wavetrim reproduce`: what they list, refuse, write and print."""

import csv
from dataclasses import replace

import pytest

from tests.command import invoke_command, run_command
from tests.lab.reports import (
    add_product,
    list_probe_reports,
    list_reports,
    split_rows,
    stride_copies,
)
from wavetrim.kernels.device import list_devices
from wavetrim.lab.probes import cpu_rows
from wavetrim.lab.probes.catalog import PROBES
from wavetrim.service.cli.commands.experiments import GROUPS, finish_report
from wavetrim.service.cli.exits import CommandFailed, ExitCode

EXPERIMENTS = GROUPS["reproduce"]
NAMES = [probe.name for probe in PROBES]
ALONE = [name for name in NAMES if name not in ("peers", "waves")]
"""Probes of one GPU that are quick."""

SMALL = {
    "compara-kernels": ("--sizes", "64,100", "--w", "4,32"),
    "mulmatcua": ("--sizes", "64,100", "--w", "4,32"),
    "mulmat": ("131", "61", "47", "--w", "16"),
    "hybrid-f": ("300", "257", "131", "--f", "0, 5,300,5"),
    "matmatgpu": ("131", "61", "47", "--ldc", "61", "--lda", "50"),
    "sdk-multiply": ("33", "61", "47", "--w", "8"),
}
"""Options that make an experiment short."""


def test_probes_are_listed(tmp_path):
    listed = invoke_command("probe", folder=tmp_path)
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == NAMES
    assert "out[i*s] = in[i*s]" in listed.stdout
    unknown = invoke_command("probe", "cache", folder=tmp_path)
    assert unknown.exit_code == ExitCode.REFUSED
    assert unknown.stderr.startswith("wavetrim: NAME is 'cache'; it must be one of strides, ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        *(("probe", name) for name in NAMES if name != "cpu-rows"),
        *(("reproduce", name) for name in EXPERIMENTS),
    ],
)
def test_without_a_gpu_nothing_is_written(words, tmp_path):
    refused = invoke_command(*words, folder=tmp_path)
    assert refused.exit_code == ExitCode.FAILED
    assert refused.stderr.endswith("and there is none: WAVETRIM_DEVICES is 'none'\n")
    assert not list(tmp_path.iterdir())


def test_the_cpu_is_measured_without_a_gpu(tmp_path, monkeypatch):
    fewer = ((1, 16), 256, 1)  # rows, side and runs
    monkeypatch.setattr(cpu_rows.run_probe, "__defaults__", fewer)
    done = invoke_command("probe", "cpu-rows", "--out", "found", folder=tmp_path)
    assert done.exit_code == 0, done.stderr
    written = {path.name for path in (tmp_path / "found").iterdir()}
    assert written == {f"cpu-rows.{kind}" for kind in ("md", "csv", "png")}
    assert "Every result was right." in done.stdout
    assert "multiprocessors" not in done.stdout


def test_tables_are_printed_whole_and_files_are_named(tmp_path, capsys):
    for report in (*list_probe_reports(), *list_reports()):
        finish_report(replace(report, plots=()), tmp_path)  # drawn in tests/lab
        shown = capsys.readouterr().out
        assert f"Measured on {report.hardware}." in shown
        for kind in ("md", "csv"):
            assert f"written: {tmp_path / report.name}.{kind}" in shown
            assert (tmp_path / f"{report.name}.{kind}").is_file()
        assert "…" not in shown  # nothing is cut at 80 columns
        for table in report.tables:
            assert table.title in shown.replace("\n", " ")
            assert all(cell in shown for row in table.rows for cell in row)


@pytest.mark.parametrize(
    "report",
    [split_rows(passed=False), add_product(padding_kept=False), stride_copies(right=False)],
)
def test_a_wrong_result_is_written_and_ends_with_3(report, tmp_path):
    with pytest.raises(CommandFailed, match=f"{report.name}: a result is wrong") as failure:
        finish_report(report, tmp_path)
    assert failure.value.code == ExitCode.WRONG
    assert (tmp_path / f"{report.name}.md").is_file()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "words",
    [
        *(("probe", name) for name in ALONE),
        *(("reproduce", name, *SMALL[name]) for name in EXPERIMENTS),
    ],
    ids=lambda words: words[1],
)
def test_what_is_measured_is_right(words, tmp_path):
    done = invoke_command(*words, "--out", "found", folder=tmp_path, WAVETRIM_DEVICES="0")
    assert done.exit_code == 0, (done.stderr, done.exception)
    assert {path.suffix for path in (tmp_path / "found").iterdir()} == {".md", ".csv", ".png"}
    with (tmp_path / "found" / f"{words[1]}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        assert row["gpu"]
        if words[0] == "reproduce":
            assert row["passed"] == "True"
        assert row.get("right") in ("True", "", None)
    assert "WRONG" not in done.stdout


@pytest.mark.gpu
def test_peers_are_measured_or_refused(tmp_path):
    """In a process of its own, as users run it."""
    done = run_command("probe", "peers", folder=tmp_path, WAVETRIM_DEVICES="")
    if len(list_devices()) > 1:
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "wavetrim-probe" / "peers.csv").is_file()
    else:
        assert done.returncode == ExitCode.FAILED
        assert "the probe peers measures two GPUs, and there is one" in done.stderr


@pytest.mark.gpu
def test_mulmat_prints_the_grid_of_the_references_example(tmp_path):
    """In a process of its own, as users run it."""
    done = run_command("reproduce", "mulmat", folder=tmp_path, WAVETRIM_DEVICES="0")
    assert done.returncode == 0, done.stderr
    assert "S=7, T=8, R=6." in done.stdout


@pytest.mark.gpu
def test_the_gpu_and_the_cpu_take_the_rows_that_f_says(tmp_path):
    words = ("reproduce", "hybrid-f", *SMALL["hybrid-f"])
    done = invoke_command(*words, folder=tmp_path, WAVETRIM_DEVICES="0")
    assert done.exit_code == 0, (done.stderr, done.exception)
    path = tmp_path / "wavetrim-reproduce" / "hybrid-f.csv"
    rows = {row["f"]: row for row in csv.DictReader(path.read_text().splitlines())}
    seconds = {
        f: (float(row["kernel_seconds"]), float(row["cpu_seconds"])) for f, row in rows.items()
    }
    assert {f: (kernel > 0, cpu > 0) for f, (kernel, cpu) in seconds.items()} == {
        "0": (True, False), "5": (True, True), "300": (False, True),
    }  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mulmat", "0"), "m is 0; it must be at least 1"),
        (("mulmat", "--w", "5"), "tile is '5'; it must be one of"),
        (
            ("mulmatcua", "--sizes", "512,"),
            "--sizes is '512,'; it must be whole numbers of at least",
        ),
        (("compara-kernels", "--w", "0"), "--w is '0'; it must be whole numbers of at least 1"),
        (("hybrid-f", "--f", "-1"), "--f is '-1'; it must be whole numbers of at least 0"),
        (("mulmatcua", "--kernel", "magic"), "kernel is 'magic'; it must be one of"),
        (("hybrid-f", "--f", "4096"), "f is 4096; it must be"),
        (("matmatgpu", "--lda", "1899"), "lda is 1899; it must be at least 1900, the columns"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, message, tmp_path):
    refused = invoke_command("reproduce", *arguments, folder=tmp_path, WAVETRIM_DEVICES="0")
    assert refused.exit_code == ExitCode.REFUSED, (refused.stderr, refused.exception)
    assert message in refused.stderr.replace("\n", " ")
    assert not list(tmp_path.glob("wavetrim-reproduce/*"))
