"""Data sheets of GPUs, to plan for them on any machine.

Peaks are multiprocessors x lanes x 2 x boost clock of the plain float32 and float64 units, unless
a field says tensor. Links have the PCIe standard's rate for sixteen lanes in one direction (15.8,
31.5 and 63 GB/s for generations 3, 4 and 5).
"""

from typing import Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.profile.machine import GpuModel

_GB: Final = 10**9
_GIB: Final = 2**30
_PCIE3, _PCIE4, _PCIE5 = 15.8, 31.5, 63.0

PRESETS: Final[tuple[GpuModel, ...]] = (
    GpuModel(
        "H200", 132, (9, 0), 1980, 141 * _GB, 4800, _PCIE5, 66_900, 33_500, 66_900, 989_500,
        "NVIDIA H200 Tensor Core GPU datasheet (SXM); multiprocessors and clock: NVIDIA H100"
        " Tensor Core GPU Architecture whitepaper",
    ),
    GpuModel(
        "H100 SXM", 132, (9, 0), 1980, 80 * _GIB, 3350, _PCIE5, 66_900, 33_500, 66_900, 989_400,
        "NVIDIA H100 Tensor Core GPU datasheet and Architecture whitepaper",
    ),
    GpuModel(
        "H100 PCIe", 114, (9, 0), 1755, 80 * _GIB, 2000, _PCIE5, 51_200, 25_600, 51_200, 756_000,
        "NVIDIA H100 Tensor Core GPU datasheet and Architecture whitepaper",
    ),
    GpuModel(
        "A100 SXM 40", 108, (8, 0), 1410, 40 * _GIB, 1555, _PCIE4, 19_500, 9_700, 19_500, 312_000,
        "NVIDIA A100 Tensor Core GPU datasheet and Architecture whitepaper",
    ),
    GpuModel(
        "A100 SXM 80", 108, (8, 0), 1410, 80 * _GIB, 2039, _PCIE4, 19_500, 9_700, 19_500, 312_000,
        "NVIDIA A100 80GB Tensor Core GPU datasheet and Architecture whitepaper",
    ),
    GpuModel(
        "L4", 58, (8, 9), 2040, 24 * _GIB, 300, _PCIE4, 30_300, 473, 473, 121_000,
        "NVIDIA L4 datasheet; float64 is 1/64 of float32: CUDA C++ Programming Guide, arithmetic"
        " throughput",
    ),
    GpuModel(
        "L40S", 142, (8, 9), 2520, 48 * _GIB, 864, _PCIE4, 91_600, 1_431, 1_431, 362_000,
        "NVIDIA L40S datasheet; float64 is 1/64 of float32: CUDA C++ Programming Guide, arithmetic"
        " throughput",
    ),
    GpuModel(
        "A10", 72, (8, 6), 1695, 24 * _GIB, 600, _PCIE4, 31_200, 488, 488, 125_000,
        "NVIDIA A10 datasheet; float64 is 1/64 of float32: CUDA C++ Programming Guide, arithmetic"
        " throughput",
    ),
    GpuModel(
        "T4", 40, (7, 5), 1590, 16 * _GIB, 320, _PCIE3, 8_100, 254, 254, 65_000,
        "NVIDIA T4 datasheet; float64 is 1/32 of float32: NVIDIA Turing Architecture whitepaper",
    ),
    GpuModel(
        "RTX 3090", 82, (8, 6), 1695, 24 * _GIB, 936, _PCIE4, 35_600, 556, 556, 71_000,
        "NVIDIA Ampere GA102 GPU Architecture whitepaper",
    ),
    GpuModel(
        "RTX 4090", 128, (8, 9), 2520, 24 * _GIB, 1008, _PCIE4, 82_600, 1_290, 1_290, 165_200,
        "NVIDIA Ada GPU Architecture whitepaper",
    ),
    GpuModel(
        "RTX 5090", 170, (12, 0), 2407, 32 * _GIB, 1792, _PCIE5, 104_800, 1_637, 1_637, 209_500,
        "NVIDIA RTX Blackwell GPU Architecture whitepaper",
    ),
    GpuModel(
        "B200", 148, (10, 0), 1980, 180 * _GB, 7700, _PCIE5, 75_000, 37_500, 37_500, 2_250_000,
        "NVIDIA HGX B200 datasheet, an eighth of eight GPUs; multiprocessors and clock as the"
        " CUDA runtime reports them",
    ),
)  # fmt: skip
"""One entry for each GPU, in the order of lists."""

CUDA_NAMES: Final[dict[str, str]] = {
    "NVIDIA H200": "H200",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    "NVIDIA A10": "A10",
    "Tesla T4": "T4",
    "NVIDIA GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA GeForce RTX 5090": "RTX 5090",
    "NVIDIA B200": "B200",
}
"""Name by the CUDA runtime → name of the preset."""

_LANES_AN_SM: Final[dict[tuple[int, int], int]] = {(7, 5): 64, (8, 0): 64}
"""float32 lanes of a multiprocessor, by compute capability; 128 of all others."""

_COMMON: Final = {"H100": "H100 SXM", "A100": "A100 SXM 80"}
"""Name of several GPUs → the preset of the common one."""


def find_preset(name: str) -> GpuModel | None:
    """The preset of a name, or of a CUDA device name; case, spaces, hyphens and _ are ignored.

    Of several GPUs with the name it is the common one.
    """
    wanted = _fold(name)
    for other_name, preset_name in (CUDA_NAMES | _COMMON).items():
        if _fold(other_name) == wanted:
            wanted = _fold(preset_name)
    return next((preset for preset in PRESETS if _fold(preset.name) == wanted), None)


def describe_gpu(info: DeviceInfo) -> GpuModel:
    """The data sheet of a GPU: its preset, else derived from its properties."""
    preset = find_preset(info.name)
    if preset is not None:
        return preset
    lanes = _LANES_AN_SM.get(info.compute_capability, 128)
    float32_gflops = info.sm_count * lanes * 2 * info.clock_mhz / 1e3
    float64_gflops = float32_gflops / 64
    return GpuModel(
        name=info.name,
        sm_count=info.sm_count,
        compute_capability=info.compute_capability,
        clock_mhz=info.clock_mhz,
        memory_bytes=info.memory_bytes,
        # Some devices do not tell their memory's clock.
        memory_gbytes_per_second=(info.memory_clock_mhz or info.clock_mhz) * 2 * 256 / 8 / 1e3,
        link_gbytes_per_second=_PCIE3,
        float32_gflops=float32_gflops,
        float64_gflops=float64_gflops,
        float64_tensor_gflops=float64_gflops,
        float16_tensor_gflops=2 * float32_gflops,
        source="derived from the device's own properties; run `wavetrim calibrate` to measure",
    )


def _fold(name: str) -> str:
    return "".join(name.split()).replace("-", "").replace("_", "").casefold()
