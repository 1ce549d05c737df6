"""`wavetrim probe`: what it lists and refuses, and every probe on a GPU."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tests.command import invoke_command, run_command
from tests.lab.probe_reports import list_probe_reports, stride_copies
from wavetrim.kernels.device import list_devices
from wavetrim.lab.probes import cpu_rows
from wavetrim.lab.probes.catalog import PROBES
from wavetrim.service.cli.commands.machine.reports import finish_report
from wavetrim.service.cli.exits import CommandFailed, ExitCode

NAMES = [probe.name for probe in PROBES]
ALONE = [name for name in NAMES if name not in ("peers", "waves")]
"""Probes of one GPU that are quick."""


def test_without_a_name_it_lists_what_can_be_measured(tmp_path: Path) -> None:
    listed = invoke_command("probe", folder=tmp_path)
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == NAMES
    assert "out[i*s] = in[i*s]" in listed.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cpu-rows"])
def test_every_probe_says_that_there_is_no_gpu(name: str, tmp_path: Path) -> None:
    refused = invoke_command("probe", name, folder=tmp_path)
    assert refused.exit_code == ExitCode.FAILED
    assert refused.stderr.endswith("and there is none: WAVETRIM_DEVICES is 'none'\n")
    assert not list(tmp_path.iterdir())


def test_the_cpu_is_measured_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = ((1, 16), 256, 1)  # rows, side and runs
    monkeypatch.setattr(cpu_rows.run_probe, "__defaults__", fewer)
    done = invoke_command("probe", "cpu-rows", "--out", "found", folder=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "cpu-rows.md",
        "cpu-rows.csv",
        "cpu-rows.png",
    }
    assert "Every result was right." in done.stdout
    assert "multiprocessors" not in done.stdout


def test_a_probe_that_there_is_not_is_refused(tmp_path: Path) -> None:
    refused = invoke_command("probe", "cache", folder=tmp_path)
    assert refused.exit_code == ExitCode.REFUSED
    assert refused.stderr.startswith("wavetrim: NAME is 'cache'; it must be one of strides, ")


def test_it_has_help_and_a_folder_for_its_files(tmp_path: Path) -> None:
    helped = invoke_command("probe", "-h", folder=tmp_path)
    assert helped.exit_code == 0
    assert "wavetrim-probe" in helped.stdout


def test_tables_are_printed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for report in list_probe_reports():
        finish_report(replace(report, plots=()), tmp_path)  # drawn in lab/test_probes.py
        shown = capsys.readouterr().out
        assert str(tmp_path / f"{report.name}.md") in shown
        assert report.tables[0].title in shown.replace("\n", " ")
        assert "…" not in shown, shown  # nothing is cut at 80 columns
        for table in report.tables:
            for row in table.rows:
                assert all(cell in shown for cell in row)


def test_a_wrong_byte_is_written_and_ends_with_3(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="strides: some bytes are wrong") as failure:
        finish_report(stride_copies(right=False), tmp_path, "some bytes are wrong")
    assert failure.value.code == ExitCode.WRONG
    assert (tmp_path / "strides.csv").is_file()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALONE)
def test_probes_run_and_move_every_byte(name: str, tmp_path: Path) -> None:
    done = invoke_command("probe", name, "--out", "found", folder=tmp_path, WAVETRIM_DEVICES="0")
    assert done.exit_code == 0, (done.stderr, done.exception)
    assert {path.suffix for path in (tmp_path / "found").iterdir()} == {".md", ".csv", ".png"}
    with (tmp_path / "found" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        assert row["gpu"]
        assert row.get("right") in ("True", "", None)
    assert "WRONG" not in done.stdout


@pytest.mark.gpu
def test_peers_are_measured_or_refused(tmp_path: Path) -> None:
    """In a process of its own, as users run it."""
    done = run_command("probe", "peers", folder=tmp_path, WAVETRIM_DEVICES="")
    if len(list_devices()) > 1:
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "wavetrim-probe" / "peers.csv").is_file()
    else:
        assert done.returncode == ExitCode.FAILED
        assert "the probe peers measures two GPUs, and there is one" in done.stderr
