"""`wavetrim reproduce`: what it refuses, how it ends, and every experiment on a GPU."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tests.command import invoke_command, run_command
from tests.lab.reports import add_product, list_reports, split_rows
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.cli.commands.machine.reports import finish_report, read_numbers
from wavetrim.service.cli.commands.machine.reproduce import EXPERIMENTS
from wavetrim.service.cli.exits import CommandFailed, ExitCode

SMALL = {
    "compara-kernels": ("--sizes", "64,100", "--w", "4,32"),
    "mulmatcua": ("--sizes", "64,100", "--w", "4,32"),
    "mulmat": ("--m", "131", "--n", "61", "--k", "47", "--w", "16"),
    "hybrid-f": ("--m", "300", "--n", "257", "--k", "131", "--f", "0,5,300"),
    "matmatgpu": ("--m", "131", "--n", "61", "--k", "47", "--ldc", "61", "--lda", "50"),
    "sdk-multiply": ("--m", "33", "--n", "61", "--k", "47", "--w", "8"),
}
"""Options that make an experiment short."""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_says_that_there_is_no_gpu(name: str, tmp_path: Path) -> None:
    refused = invoke_command("reproduce", name, folder=tmp_path)
    assert refused.exit_code == ExitCode.FAILED
    assert refused.stderr == (
        "wavetrim: this experiment measures a CUDA GPU, and there is none: "
        "WAVETRIM_DEVICES is 'none'\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_machine_without_a_gpu_hears_what_is_missing(tmp_path: Path) -> None:
    refused = run_command(
        "reproduce", "mulmat", folder=tmp_path, WAVETRIM_DEVICES="", CUDA_VISIBLE_DEVICES=""
    )
    assert refused.returncode == ExitCode.FAILED
    message = refused.stderr.splitlines()[-1]
    assert message.startswith("wavetrim: this experiment measures a CUDA GPU, and there is none: ")
    assert message.partition(" none: ")[2].startswith(
        ("CuPy is not installed", "CUDA finds no device")
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_help_and_a_folder_for_its_files(name: str, tmp_path: Path) -> None:
    helped = invoke_command("reproduce", name, "-h", folder=tmp_path)
    assert helped.exit_code == 0
    assert "--out" in helped.stdout
    assert "wavetrim-reproduce" in helped.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-experiment"],
        ["mulmat", "--m", "0"],
        ["mulmatcua", "--sizes", "512,"],
        ["compara-kernels", "--w", "0"],
        ["hybrid-f", "--f", "-1"],
        ["sdk-multiply", "--f", "1"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], tmp_path: Path) -> None:
    assert invoke_command("reproduce", *arguments, folder=tmp_path).exit_code == ExitCode.REFUSED


def test_numbers_are_read_once_each() -> None:
    assert read_numbers("--f", "0, 4,8,4", least=0) == (0, 4, 8)
    with pytest.raises(FieldError, match="--f is '0,x'; it must be whole numbers of at least 0"):
        read_numbers("--f", "0,x", least=0)


def test_a_right_product_is_shown_and_its_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for report in list_reports():
        finish_report(replace(report, plots=()), tmp_path)  # drawn in lab/test_experiments.py
        shown = capsys.readouterr().out
        assert "Measured on Abacus 9 (12 multiprocessors" in shown
        assert str(tmp_path / f"{report.name}.md") in shown
        assert (tmp_path / f"{report.name}.csv").is_file()
        assert "…" not in shown  # nothing is cut at 80 columns


@pytest.mark.parametrize("report", [split_rows(passed=False), add_product(padding_kept=False)])
def test_a_wrong_product_is_written_and_ends_with_3(report, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=f"{report.name}: the product is wrong") as failure:
        finish_report(report, tmp_path)
    assert failure.value.code == ExitCode.WRONG
    assert (tmp_path / f"{report.name}.md").is_file()


@pytest.mark.gpu
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_run_and_their_products_are_right(name: str, tmp_path: Path) -> None:
    words = ("reproduce", name, *SMALL[name], "--out", "found")
    done = invoke_command(*words, folder=tmp_path, WAVETRIM_DEVICES="")
    assert done.exit_code == 0, (done.stderr, done.exception)
    files = {path.suffix for path in (tmp_path / "found").iterdir()}
    assert files == {".md", ".csv", ".png"}
    with (tmp_path / "found" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        assert row["passed"] == "True"
        assert row["gpu"]
    assert "WRONG" not in done.stdout


@pytest.mark.gpu
def test_mulmat_prints_the_grid_of_the_references_example(tmp_path: Path) -> None:
    """In a process of its own, as users run it."""
    done = run_command("reproduce", "mulmat", folder=tmp_path, WAVETRIM_DEVICES="0")
    assert done.returncode == 0, done.stderr
    assert "S=7, T=8, R=6." in done.stdout


@pytest.mark.gpu
def test_the_gpu_and_the_cpu_take_the_rows_that_f_says(tmp_path: Path) -> None:
    words = ("reproduce", "hybrid-f", *SMALL["hybrid-f"])
    done = invoke_command(*words, folder=tmp_path, WAVETRIM_DEVICES="0")
    assert done.exit_code == 0, (done.stderr, done.exception)
    path = tmp_path / "wavetrim-reproduce" / "hybrid-f.csv"
    rows = {row["f"]: row for row in csv.DictReader(path.read_text().splitlines())}
    assert float(rows["0"]["cpu_seconds"]) == 0 < float(rows["0"]["kernel_seconds"])
    assert float(rows["5"]["cpu_seconds"]) > 0 < float(rows["5"]["kernel_seconds"])
    assert float(rows["300"]["kernel_seconds"]) == 0 < float(rows["300"]["cpu_seconds"])


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mulmat", "--w", "5"), "tile is '5'; it must be one of"),
        (("mulmatcua", "--kernel", "magic"), "kernel is 'magic'; it must be one of"),
        (("hybrid-f", "--f", "4096"), "f is 4096; it must be"),
        (("matmatgpu", "--lda", "1899"), "lda is 1899; it must be at least 1900, the columns"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    refused = invoke_command("reproduce", *arguments, folder=tmp_path, WAVETRIM_DEVICES="0")
    assert refused.exit_code == ExitCode.REFUSED, (refused.stderr, refused.exception)
    assert message in refused.stderr.replace("\n", " ")
    assert not list(tmp_path.glob("wavetrim-reproduce/*"))
