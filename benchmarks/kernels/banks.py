"""Cycles of each float32 kernel's loop as register banks bound them, from the machine code.

A model of Hopper's register file, found by comparing loops with their measured cycles ("Registers
have banks" in docs/kernels.md). There are two banks, the even and the odd registers, and each gives
one operand in a cycle. A fused multiply-add could start in every cycle, but needs three operands;
one that the machine code keeps from the instruction before (`.reuse`) is not read again. Operands
may come one cycle late.

Run `python -m benchmarks.kernels.banks`; no GPU is needed. It writes
benchmarks/results/banks-sm_90a.json.
"""

import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common.environment import describe_environment
from benchmarks.common.results import write_document
from benchmarks.common.tables import RESULTS
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.compile import compile_kernel, find_compiler_version
from wavetrim.kernels.spec import KernelSpec

ARCH: Final = "sm_90a"
BANKS: Final = 2
SLACK_CYCLES: Final = 1
LEAST_MULTIPLY_ADDS: Final = 512
"""Least multiply-adds of a loop over a tile's steps; smaller loops are prologues. Chosen."""

_LABEL: Final = re.compile(r"^(\.L\w+):")
_INSTRUCTION: Final = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_BRANCH: Final = re.compile(r"\bBRA\b.*`\((\.L\w+)\)")
_PREDICATE: Final = re.compile(r"^@!?U?P\w+\s+")
_REGISTER: Final = re.compile(r"^R(\d+)")


def find_disassembler() -> str:
    """NVIDIA's nvdisasm: on the PATH, or in its package."""
    packaged = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin"
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=str(packaged))
    if found is None:
        raise FileNotFoundError("nvdisasm is not on the PATH; pip install nvidia-cuda-nvdisasm")
    return found


def disassemble(cubin: Path) -> str:
    """The machine code as text."""
    command = (find_disassembler(), "-c", str(cubin))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def find_loop(text: str) -> list[str]:
    """The instructions of the shortest loop with enough multiply-adds.

    Raises:
        ValueError: There is no such loop.
    """
    labels: dict[str, int] = {}
    instructions: list[str] = []
    loops: list[list[str]] = []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif found := _INSTRUCTION.match(line):
            instructions.append(_PREDICATE.sub("", found[1]))
            branch = _BRANCH.search(found[1])
            if branch and branch[1] in labels:
                loops.append(instructions[labels[branch[1]] :])
    fitting = [loop for loop in loops if count_multiply_adds(loop) >= LEAST_MULTIPLY_ADDS]
    if not fitting:
        raise ValueError(f"no loop has {LEAST_MULTIPLY_ADDS} multiply-adds")
    return min(fitting, key=len)


def count_multiply_adds(loop: Sequence[str]) -> int:
    """Fused multiply-adds in float32."""
    return sum(instruction.startswith("FFMA") for instruction in loop)


def count_cycles(loop: Sequence[str]) -> int:
    """Cycles that one warp's instructions take to start, by the model.

    Two operands of one bank take two cycles; three, as the measured loops have it, take four.
    """
    cycle = 0
    free = [0] * BANKS  # cycle from which on a bank can be read
    for registers in list_reads(loop):
        reads = Counter(register % BANKS for register in registers)
        start = cycle
        for bank, count in reads.items():
            start = max(start, free[bank] + count - 1 - SLACK_CYCLES)
        for bank, count in reads.items():
            free[bank] = max(free[bank], start) + count
        cycle = start + 1
    return cycle


def list_reads(loop: Sequence[str]) -> Iterator[set[int]]:
    """The registers that each multiply-add reads; none for other instructions."""
    kept: dict[int, int] = {}
    for instruction in loop:
        if not instruction.startswith("FFMA"):
            kept = {}
            yield set()
            continue
        operands = instruction.split(None, 1)[1].split(",")[1:]
        numbers = {place: _REGISTER.match(text.strip()) for place, text in enumerate(operands)}
        registers = {place: int(found[1]) for place, found in numbers.items() if found}
        yield {number for place, number in registers.items() if kept.get(place) != number}
        kept = {place: registers[place] for place in registers if ".reuse" in operands[place]}


def describe(spec: KernelSpec, cache_dir: Path) -> dict[str, Any]:
    """JSON-ready: the counts of one kernel's loop."""
    loop = find_loop(disassemble(compile_kernel(spec, ARCH, cache_dir).path))
    multiply_adds = count_multiply_adds(loop)
    return {
        "kernel": spec.name,
        "tile": str(spec.tile),
        "multiply_adds": multiply_adds,
        "shared_reads": sum(instruction.startswith("LDS") for instruction in loop),
        "instructions": len(loop),
        "cycles": count_cycles(loop),
    }


def list_measured() -> list[KernelSpec]:
    """The float32 kernels that are bound by multiply-adds."""
    return [spec for spec in list_kernels(dtype="float32") if spec.keeps_order]


def main() -> None:
    """Count every kernel's loop and write the results."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [describe(spec, Path(folder)) for spec in list_measured()]
    out = RESULTS / f"banks-{ARCH}.json"
    commit = describe_environment()["commit"]
    write_document(out, arch=ARCH, compiler=find_compiler_version(), commit=commit, rows=rows)
    print(f"written to {out}")


if __name__ == "__main__":
    main()
