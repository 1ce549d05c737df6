"""The model of register banks, and what it says of the kernels that are arranged by it."""

from pathlib import Path

import pytest

from benchmarks.kernels.banks import ARCH, count_cycles, describe, find_loop
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.spec import KernelSpec

BULK = [spec for spec in list_kernels(dtype="float32") if spec.name == "bulk"]
MOST_CYCLES = 1.18
"""Of bulk's loop for each multiply-add. At 1.12 and 1.13 it passed cuBLAS; at 1.4 and more, where
the assembler orders instructions by itself, it did not by far."""


def test_operands_in_both_banks_and_one_kept_take_a_cycle() -> None:
    loop = [f"FFMA R{sum_}, R1.reuse, R{b}, R{sum_}" for sum_, b in ((4, 11), (7, 10), (8, 13))]
    assert count_cycles(loop) == 3


def test_operands_that_meet_in_one_bank_take_longer() -> None:
    three, two = "FFMA R2, R4, R6, R2", "FFMA R2, R4.reuse, R6, R2"
    assert count_cycles([three] * 100) == pytest.approx(400, abs=2)
    assert count_cycles([two] * 100) == pytest.approx(200, abs=2)


def test_what_is_kept_is_lost_to_an_instruction_between() -> None:
    kept = "FFMA R2, R4.reuse, R6, R2"
    assert count_cycles([kept, kept, kept]) < count_cycles([kept, kept, "LDS.128 R8, [R9]", kept])


def test_the_loop_over_steps_is_found_among_others() -> None:
    body = ["FFMA R2, R4, R6, R2"] * 600
    lines = [".L_x_1:", *body, "@!P0 BRA `(.L_x_1)", ".L_x_2:", "IADD3 R1, R1, R2, RZ"]
    lines += ["@P0 BRA `(.L_x_2)"]
    text = "\n".join(
        line if line.startswith(".L") else f"        /*{number:04x}*/   {line} ;"
        for number, line in enumerate(lines)
    )
    assert len(find_loop(text)) == 601
    with pytest.raises(ValueError, match="no loop"):
        find_loop("")


@pytest.mark.parametrize("spec", BULK, ids=lambda spec: str(spec.tile))
def test_registers_of_the_bulk_kernel_seldom_meet(spec: KernelSpec, kernel_cache: Path) -> None:
    assert ARCH == "sm_90a"
    counted = describe(spec, kernel_cache)
    assert counted["cycles"] / counted["multiply_adds"] < MOST_CYCLES
