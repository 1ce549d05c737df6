import os
import re
import shutil
import subprocess
import sysconfig
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.environment import ALL_ARCHITECTURES, ARCHITECTURES, MEASURED_ARCHITECTURE, ROOT
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.compile import compile_kernel
from wavetrim.kernels.errors import CompilationFailed
from wavetrim.kernels.gemm.launch import STRICT, STRICT_LIMITED, make_persistent
from wavetrim.kernels.gemm.tensor import SHORT, SHORT_LIMITED

SIMPLE = find_kernel("simple", "float32", "4")

pytestmark = pytest.mark.timeout(900)  # together they take a core for 90 s


def disassemble(cubin):
    """A kernel's machine code as text, by NVIDIA's nvdisasm: on the PATH, or in its package."""
    packaged = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin"
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=str(packaged))
    assert found, "nvdisasm is not on the PATH; pip install nvidia-cuda-nvdisasm"
    command = (found, "-c", str(cubin))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def list_architectures(spec):
    """The architectures that a kernel claims, the least first."""

    def claims(arch):
        digits = arch.removeprefix("sm_").rstrip("a")
        return spec.runs_on((int(digits[:-1]), int(digits[-1])))

    return [arch for arch in ARCHITECTURES if claims(arch)]


def list_compilations():
    """All kernels for all architectures, if these are to be compiled.

    Otherwise all for the measured one, and one kernel of each source for the least. Those that take
    the place of others, where K is short or multiprocessors are limited, for the measured one.
    """
    specs = [spec for spec in list_kernels() if spec.source]
    persistent = (make_persistent(spec) for spec in specs if spec.can_limit_sms)
    measured = [*specs, *persistent, SHORT, SHORT_LIMITED, STRICT_LIMITED]
    first = {spec.source: spec for spec in reversed(specs)}.values()
    others = [(spec, list_architectures(spec)[0]) for spec in first]
    if ALL_ARCHITECTURES:
        others = [(spec, arch) for spec in specs for arch in list_architectures(spec)]
    return list(dict.fromkeys([*((spec, MEASURED_ARCHITECTURE) for spec in measured), *others]))


@pytest.fixture(scope="module")
def compiled_kernels(kernel_cache):
    slow_first = sorted(list_compilations(), key=lambda pair: -pair[0].shared_bytes)
    specs, archs = zip(*slow_first, strict=True)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        compiled = pool.map(compile_kernel, specs, archs, [kernel_cache] * len(specs))
        return dict(zip(slow_first, compiled, strict=True))


@pytest.mark.slow
def test_every_kernel_compiles_for_architectures_that_it_claims(compiled_kernels):
    for (spec, arch), compiled in compiled_kernels.items():
        assert compiled.path.read_bytes().startswith(b"\x7fELF"), (spec.label, arch)
        assert 0 < compiled.registers <= 255
        assert compiled.shared_bytes + spec.dynamic_shared_bytes == spec.shared_bytes


@pytest.mark.slow
def test_no_kernel_spills_registers(compiled_kernels):
    spills = defaultdict(list)
    for (spec, arch), compiled in compiled_kernels.items():
        if compiled.spill_bytes:
            spills[spec.label].append((arch, compiled.spill_bytes))
    assert not spills


@pytest.mark.slow
def test_tiled_kernels_leave_registers_for_the_blocks_that_they_promise(compiled_kernels):
    for (spec, _), compiled in compiled_kernels.items():
        if spec.tiling:
            is_persistent = getattr(spec.tiling, "persistent", False)  # it has all of them
            blocks = 1 if is_persistent else getattr(spec.tiling, "blocks_per_sm", 1)
            assert compiled.registers * spec.threads * blocks <= 65536


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "arch"),
    [(STRICT, "sm_100"), (STRICT_LIMITED, "sm_90a"), (SHORT_LIMITED, "sm_90a")],
    ids=lambda one: getattr(one, "label", one),
)
def test_a_copy_to_a_uniform_address_names_its_cache_policy(spec, arch, kernel_cache):
    """NVRTC before 13.4 names other registers, which makes the instruction illegal."""
    text = disassemble(compile_kernel(spec, arch, kernel_cache).path)
    policies = set(re.findall(r"UMOV UR(\d+), 0x12f00000", text))
    named = set(re.findall(r"LDGSTS\S* \[R\d+\+UR\d+\S*\], desc\[UR(\d+)\]", text))
    assert "LDGSTS" in text
    assert named <= policies


def test_a_kernel_is_compiled_once(tmp_path):
    first = compile_kernel(SIMPLE, "sm_80", tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert compile_kernel(SIMPLE, "sm_80", tmp_path) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written


def test_a_changed_include_is_compiled_anew(tmp_path, monkeypatch):
    sources = tmp_path / "cuda"
    sources.mkdir()
    real = ROOT / "kernels" / "cuda"
    for name in ("simple.cu", "product.cuh"):
        (sources / name).write_bytes((real / name).read_bytes())
    monkeypatch.setattr("wavetrim.kernels.spec.KERNEL_SOURCES", sources)
    before = compile_kernel(SIMPLE, "sm_80", tmp_path)
    header = sources / "product.cuh"
    header.write_text(header.read_text().replace("alpha * sum :", "alpha * sum * 2 :"))
    assert compile_kernel(SIMPLE, "sm_80", tmp_path).path != before.path


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", None])
def test_a_damaged_cubin_is_compiled_anew(tmp_path, damage):
    compiled = compile_kernel(SIMPLE, "sm_80", tmp_path)
    whole = compiled.path.read_bytes()
    if damage is None:
        compiled.path.unlink()
    else:
        compiled.path.write_bytes(damage)
    again = compile_kernel(SIMPLE, "sm_80", tmp_path)
    assert again.path.read_bytes()[:4] == whole[:4]
    assert len(again.path.read_bytes()) == len(whole)


def test_processes_that_compile_at_once_all_get_a_whole_cubin(tmp_path):
    with ProcessPoolExecutor(4, get_context("spawn")) as pool:
        found = list(pool.map(compile_kernel, [SIMPLE] * 8, ["sm_80"] * 8, [tmp_path] * 8))
    for compiled in found:
        assert compiled.path.read_bytes().startswith(b"\x7fELF")
    assert not list(tmp_path.glob(".*")), "a temporary file was left behind"


def test_a_kernel_that_does_not_compile_is_an_error_with_the_log(tmp_path):
    with pytest.raises(CompilationFailed, match=r"simple 4x4x4 float32 .* sm_1") as failure:
        compile_kernel(SIMPLE, "sm_1", tmp_path)
    assert "arch" in failure.value.log
    assert not list(tmp_path.iterdir())
