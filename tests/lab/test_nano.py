"""The idea in 150 lines, on a simulated GPU and on a real one."""

import ast
import re
import subprocess
import sys

import pytest

from tests.environment import ROOT, clear_environment

with pytest.MonkeyPatch.context() as environment:
    environment.setenv("OPENBLAS_NUM_THREADS", "1")  # as it does itself, for all tests of a process
    from wavetrim.lab.nano import KERNEL, W, choose_f

FILE = ROOT / "lab" / "nano.py"
ROW = re.compile(r"^ *(\d+) +(\d+) +([\d.]+) +([\d.]+) (PASSED|FAILED) #*( <- chosen)?$", re.M)


def run_nano(*arguments, **variables):
    """What the program prints, and its rows: F, waves, ms of GPU and CPU, verdict, mark."""
    ended = subprocess.run(
        [sys.executable, str(FILE), *arguments], env={**clear_environment(), **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout, ROW.findall(ended.stdout)


def test_it_is_short_and_imports_nothing_from_the_rest():
    text = FILE.read_text()
    assert len(text.splitlines()) <= 150
    nodes = [*ast.walk(ast.parse(text))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not any(name.startswith((".", "wavetrim")) for name in names)


def test_f_is_the_least_that_removes_a_wave():
    def choose(m, row_seconds):
        return choose_f(m, 256, 40, wave_seconds=1.0, row_seconds=row_seconds)

    assert choose(672, 0.026) == 32
    assert choose(640, 0.026) == 0  # its last wave is full; the next to go has 160 rows
    assert choose(640, 0.01) == 160
    assert choose(672, 1.0) == 0  # the CPU would be the slower side
    assert choose(672, 1e-6) == 672


def test_the_simulated_gpu_shows_the_staircase():
    printed, rows = run_nano(CUDA_VISIBLE_DEVICES="")
    assert "SIMULATED" in printed
    assert [row[1] for row in rows] == list("54444433333")
    assert {row[4] for row in rows} == {"PASSED"}
    assert [row[0] for row in rows if row[5]] == ["32"]
    steps = {row[1]: float(row[2]) for row in rows}
    assert steps["4"] / steps["5"] == pytest.approx(4 / 5, rel=0.05)
    assert len({row[2] for row in rows}) == 3


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_its_kernel_compiles(arch, tmp_path):
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(arch=arch, define_macro=f"W={W}", std="c++17")
    assert Program(KERNEL, code_type="c++", options=options).compile("cubin").code


@pytest.mark.gpu
@pytest.mark.serial
def test_a_real_gpu_shows_the_staircase():
    for _ in range(5):  # until no other program has used the GPU meanwhile
        printed, rows = run_nano()
        assert "SIMULATED" not in printed
        assert [row[1] for row in rows[:7]] == list("5444443")
        assert {row[4] for row in rows} == {"PASSED"}
        seconds = {row[1]: float(row[2]) for row in rows}
        if seconds["3"] < seconds["4"] < seconds["5"]:
            return
    pytest.fail(printed)


@pytest.mark.gpu
def test_a_real_gpu_computes_ragged_tiles():
    printed, rows = run_nano("501")
    assert "SIMULATED" not in printed
    assert {row[4] for row in rows} == {"PASSED"}
