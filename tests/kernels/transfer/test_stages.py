"""Copies in C between pageable memory and the device keep every element."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.native.sanitizers import SANITIZERS, list_flags, run_program
from tests.processes import compile_c

DRIVER = Path(__file__).with_name("driver.c")


def run_check(name, folder, cache, sanitizer, *arguments):
    driver = folder / "libcuda.so.1"
    flags = ("-Wall", "-Werror", "-O1", "-shared", "-fPIC", *list_flags(sanitizer))
    compile_c(driver, DRIVER, *flags)
    words = ("-m", f"tests.kernels.transfer.{name}", driver, folder if sanitizer else cache)
    run_program(sanitizer, folder, *words, *arguments)


@pytest.mark.timeout(900)  # the thread sanitizer takes ten times as long
@pytest.mark.parametrize("sanitizer", ["", *SANITIZERS])
def test_the_staging_check_passes(tmp_path, kernel_cache, sanitizer):
    run_check("staging_check", tmp_path, kernel_cache, sanitizer)


def test_products_from_all_kinds_of_memory_are_right_whatever_streams_do_meanwhile(
    tmp_path, kernel_cache
):
    seed = datetime.now(UTC).toordinal()
    run_check("commands_check", tmp_path, kernel_cache, "", seed)
