import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.command import invoke_command, run_command, start_command
from tests.environment import clear_environment
from tests.matrices import assert_product, make_matrix
from tests.processes import execute
from wavetrim.service.cli.exits import ExitCode


def save(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def list_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_product_is_written_and_reported(tmp_path):
    a, b = make_matrix(130, 65, "float32", 0), make_matrix(65, 33, "float32", 1)
    save(tmp_path, A=a, B=np.asfortranarray(b))
    arguments = ["multiply", "A.npy", "B.npy", "-o", "C.npy", "--verify"]
    done = run_command(*arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "130 of 130" in done.stdout
    assert "predicted/measured" in done.stdout
    assert "verified: error" in done.stdout
    assert "100%" in done.stderr
    assert_product(np.load(tmp_path / "C.npy"), a, b)
    assert set(list_files(tmp_path)) == {"A.npy", "B.npy", "C.npy"}


def test_c0_may_be_the_file_that_is_replaced(tmp_path):
    a, b, c = (make_matrix(*shape, "int32", 2) for shape in ((7, 5), (5, 9), (7, 9)))
    save(tmp_path, A=a, B=b, C=c)
    factors = ["--c", "C.npy", "--alpha", "3", "--beta", "-2"]
    done = invoke_command("multiply", "A.npy", "B.npy", "-o", "C.npy", *factors, folder=tmp_path)
    assert done.exit_code == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "C.npy"), 3 * (a @ b) - 2 * c)


def test_files_of_three_dimensions_are_stacks(tmp_path):
    a, b = np.random.default_rng(4).random((2, 5, 30, 30))
    save(tmp_path, A=a, B=b)
    arguments = ["multiply", "A.npy", "B.npy", "-o", "C.npy", "--verify"]
    done = invoke_command(*arguments, folder=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "5, each as follows" in done.stdout
    assert "30 of 30" in done.stdout
    np.testing.assert_allclose(np.load(tmp_path / "C.npy"), a @ b, rtol=1e-12)


def test_a_file_that_is_there_is_replaced_as_a_whole(tmp_path):
    a = make_matrix(4, 4, "float64", 3)
    save(tmp_path, A=a, real=np.zeros((900, 900)))
    (tmp_path / "C.npy").symlink_to("real.npy")
    kept = np.load(tmp_path / "real.npy", mmap_mode="r")
    done = invoke_command("multiply", "A.npy", "A.npy", "-o", "C.npy", folder=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "C.npy").is_symlink()
    assert_product(np.load(tmp_path / "real.npy"), a, a)
    assert not kept.any(), "the old file stays as it was for a reader that has it mapped"


def test_an_operand_is_not_overwritten(tmp_path):
    save(tmp_path, A=make_matrix(4, 4, "float64", 4))
    os.link(tmp_path / "A.npy", tmp_path / "same.npy")
    before = list_files(tmp_path)
    for output in ("A.npy", "./A.npy", "same.npy"):
        refused = invoke_command("multiply", "A.npy", "A.npy", "-o", output, folder=tmp_path)
        assert refused.exit_code == ExitCode.REFUSED
        assert f"--output is {str(Path(output))!r}; it must be another file" in refused.stderr
    assert list_files(tmp_path) == before


def make_small(dtype="float32", rows=4, columns=4):
    return make_matrix(rows, columns, dtype, 5)


@pytest.mark.parametrize(
    ("second", "options", "message"),
    [
        (make_small(rows=5), [], "shape of b is (5, 4); it must be (4, N)"),
        (make_small("float64"), [], "dtype of b is 'float64'; it must be float32"),
        (make_small(), ["--f", "7"], "f is 7"),
        (make_small(), ["--beta", "1"], "--beta is 1, so C0 is needed: --c C0.npy gives it"),
        (make_small(), ["--alpha", "nan"], "alpha is nan; it must be a finite number"),
        (make_small(), ["-o", "."], "it must be the name of an ordinary file"),
        (make_small(), ["-o", "/dev/null"], "it must be the name of an ordinary file"),
        (np.zeros(4, np.float32), [], "B.npy: shape is '(4,)'; it must be of 2 dimensions"),
        (np.zeros((4, 4), "longdouble"), [], "B.npy: descr is '<f16'"),
    ],
)
def test_bad_input_names_field_value_and_limit(second, options, message, tmp_path):
    save(tmp_path, A=make_small(), B=second)
    before = list_files(tmp_path)
    refused = invoke_command("multiply", "A.npy", "B.npy", "-o", "C.npy", *options, folder=tmp_path)
    assert refused.exit_code == ExitCode.REFUSED
    assert refused.stderr.startswith("wavetrim: ")
    assert message in refused.stderr
    assert list_files(tmp_path) == before


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_an_interrupt_leaves_no_partial_output(number, tmp_path):
    slow = make_matrix(2000, 2000, "int64", 6)
    save(tmp_path, A=slow, B=slow)
    (tmp_path / "C.npy").write_text("what was there")
    command = ("multiply", "A.npy", "B.npy", "-o", "C.npy")
    with start_command(*command, folder=tmp_path, WAVETRIM_CPU_THREADS="1") as process:
        process.wait_until(lambda: len(list(tmp_path.iterdir())) == 4)  # its output file is there
        time.sleep(0.3)
        process.interrupt(number)
    assert set(list_files(tmp_path)) == {"A.npy", "B.npy", "C.npy"}
    assert (tmp_path / "C.npy").read_text() == "what was there"


def test_a_full_disk_is_said_before_the_product_is_computed(tmp_path):
    save(tmp_path, A=np.zeros((2000, 1), np.int8), B=np.zeros((1, 2000), np.int8))
    # The largest file that this shell's children may write: 1000 blocks of 1 KiB.
    limited = f"ulimit -f 1000; trap '' XFSZ; exec '{sys.executable}' -m wavetrim"
    command = ["bash", "-c", f"{limited} multiply A.npy B.npy -o C.npy"]
    done = execute(command, cwd=tmp_path, env=clear_environment())
    assert done.returncode == ExitCode.FAILED
    assert "C.npy: no room for 3.81 MiB" in done.stderr
    assert set(list_files(tmp_path)) == {"A.npy", "B.npy"}
