"""The kernels of the probes compile, with the registers and memory that they promise."""

import pytest

from tests.environment import ALL_ARCHITECTURES, ARCHITECTURES, MEASURED_ARCHITECTURE
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.compile import KERNEL_SOURCES, compile_kernel
from wavetrim.lab.gpu.catalog import REGISTERS, TRANSPOSES, list_probe_kernels

CUDA = TRANSPOSES["naive"].folder

COMPILED_FOR = ARCHITECTURES if ALL_ARCHITECTURES else (ARCHITECTURES[0], MEASURED_ARCHITECTURE)


@pytest.fixture(scope="module")
def compiled_probes(kernel_cache):
    return {
        (spec, arch): compile_kernel(spec, arch, kernel_cache)
        for spec in list_probe_kernels()
        for arch in COMPILED_FOR
    }


@pytest.mark.slow
def test_every_probe_compiles(compiled_probes):
    assert len(compiled_probes) == len(list_probe_kernels()) * len(COMPILED_FOR)
    for (spec, _), compiled in compiled_probes.items():
        cubin = compiled.path.read_bytes()
        assert cubin.startswith(b"\x7fELF")
        for entry in spec.entries:
            assert f".text.{entry}\0".encode() in cubin


@pytest.mark.slow
def test_only_tight_launch_bounds_spill_registers(compiled_probes):
    for (spec, arch), compiled in compiled_probes.items():
        spills = spec in (REGISTERS[6], REGISTERS[8])
        assert (compiled.spill_bytes > 0) == spills, (spec.label, arch)
    for arch in COMPILED_FOR:
        used = [compiled_probes[spec, arch].registers for spec in REGISTERS.values()]
        assert used == sorted(used, reverse=True)
        for blocks, spec in REGISTERS.items():
            assert compiled_probes[spec, arch].registers * 128 * blocks <= 65536


@pytest.mark.slow
def test_the_padded_tile_has_one_word_more_a_row(compiled_probes):
    for arch in COMPILED_FOR:
        words = {
            name: compiled_probes[spec, arch].shared_bytes // 4 for name, spec in TRANSPOSES.items()
        }
        assert words == {"naive": 0, "shared": 32 * 32, "padded": 32 * 33}


def test_probes_that_differ_have_labels_that_differ():
    labels = [spec.label for spec in list_probe_kernels()]
    assert len(set(labels)) == len(labels)


def test_every_cuda_source_belongs_to_a_probe_or_a_kernel():
    specs = [spec for spec in (*list_probe_kernels(), *list_kernels()) if spec.source]
    for folder in (CUDA, KERNEL_SOURCES):
        used = {spec.source for spec in specs if spec.folder == folder}
        assert {path.name for path in folder.glob("*.cu")} == used
