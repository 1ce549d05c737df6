"""Wave staircases: time of each kernel over its tiles, with the fitted model."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.gemm.tails import divide_tiles
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.whole_tiles import KernelProbe
from wavetrim.lab.probes.staircase import KernelModel, measure_kernel
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Row, Table, format_digits

NAME: Final = "waves"
SHOWS: Final = (
    "the wave staircase of each kernel: quantum, launch, cost of a wave and of a unit of K"
)
K: Final = 512

_DTYPES: Final = ("float32", "float64")
_WAVES: Final = 3
_POINTS: Final = 24
_REPEATS: Final = 3


@dataclass(frozen=True, slots=True)
class Staircase:
    """A kernel's measured times and their model.

    Attributes:
        model: The model, fitted to other launches.
        tiles: Tiles of each launch, increasing.
        seconds: Median seconds of each launch.
    """

    model: KernelModel
    tiles: tuple[int, ...]
    seconds: tuple[float, ...]

    def predict(self, tiles: int) -> float:
        """Seconds by the model: the launch and its waves, of which stream-K divides the last."""
        model = self.model
        spec = find_kernel(model.kernel, model.dtype, model.tile)
        waves: float = ceil(tiles / model.slots)
        if spec.stream_k_tail:
            steps_k = ceil(K / spec.tile.k)
            waves = divide_tiles(tiles, steps_k, model.slots).steps / steps_k
        return model.launch_seconds + waves * (model.wave_seconds + model.wave_k_seconds * K)


def run_probe(bench: Bench, specs: Sequence[KernelSpec] | None = None) -> Report:
    """Measure kernels; by default those of `pick_kernels`."""
    chosen = pick_kernels(bench.device.compute_capability) if specs is None else specs
    stairs = []
    for done, spec in enumerate(chosen):
        bench.tell(done / len(chosen), spec.label)
        stairs.append(_measure(bench, spec))
    return make_report(stairs, bench.hardware)


def pick_kernels(compute_capability: tuple[int, int]) -> tuple[KernelSpec, ...]:
    """The first kernel of each name, in float32 and float64, that the GPU runs."""
    firsts: dict[tuple[str, str], KernelSpec] = {}
    for dtype in _DTYPES:
        for spec in list_kernels(dtype=dtype, compute_capability=compute_capability):
            firsts.setdefault((spec.name, dtype), spec)
    return tuple(firsts.values())


def choose_tiles(sm_count: int, slots: int) -> tuple[int, tuple[int, ...]]:
    """A quantum of tiles, and multiples of it that cover three waves.

    Returns:
        (a divisor of `sm_count`, at most a quarter of it; increasing factors).
    """
    most = max(1, sm_count // 4)
    quantum = next(size for size in range(most, 0, -1) if sm_count % size == 0)
    end = ceil(_WAVES * slots / quantum)
    return quantum, tuple(sorted({ceil(end * i / _POINTS) for i in range(1, _POINTS + 1)}))


def make_report(stairs: Sequence[Staircase], hardware: Hardware) -> Report:
    """The report: a table of the models, and plots of each staircase with its model."""
    cells = tuple(
        (
            f"{one.model.kernel} {one.model.tile} {one.model.dtype}",
            str(one.model.slots),
            format_digits(1e6 * one.model.launch_seconds),
            format_digits(1e6 * (one.model.wave_seconds + K * one.model.wave_k_seconds)),
            format_digits(1e9 * one.model.wave_k_seconds),
        )
        for one in stairs
    )
    head = ("kernel", "tiles a wave", "launch, µs", "wave, µs", "unit of K, ns")
    return Report(
        name=NAME,
        title=f"Products of K = {K} on the GPU, by the tiles of C.",
        hardware=hardware,
        findings=("A last wave that a kernel divides along K counts by the share that it fills.",),
        tables=(Table(f"Waves at K = {K}", head, cells),),
        plots=tuple(
            _plot(name, [one for one in stairs if one.model.kernel == name])
            for name in dict.fromkeys(one.model.kernel for one in stairs)
        ),
        rows=tuple(row for one in stairs for row in _make_rows(one)),
        passed=True,
    )


def _measure(bench: Bench, spec: KernelSpec) -> Staircase:
    device = bench.device
    model = measure_kernel(spec, device, bench.cache_dir)
    quantum, multiples = choose_tiles(device.sm_count, model.slots)
    probe = KernelProbe(
        spec, sm_count=quantum, device_index=device.index, cache_dir=bench.cache_dir
    )
    timings = [probe.measure(count, K, _REPEATS) for count in multiples]
    return Staircase(
        model,
        tuple(timing.tiles for timing in timings),
        tuple(timing.seconds for timing in timings),
    )


def _plot(kernel: str, stairs: Sequence[Staircase]) -> Plot:
    """A kernel's staircases side by side."""
    return Plot(kernel, f"{NAME}: {kernel}, K = {K}", tuple(map(_draw, stairs)))


def _draw(one: Staircase) -> Panel:
    model = one.model
    x = tuple(map(float, one.tiles))
    lines = (
        Line("measured", x, one.seconds),
        Line("model", x, tuple(map(one.predict, one.tiles)), colour=1),
    )
    title = f"{model.dtype}, {model.tile}, {model.slots} tiles a wave"
    return Panel(title, "tiles of C", "time", lines, y_unit="s")


def _make_rows(one: Staircase) -> tuple[Row, ...]:
    model = one.model
    return tuple(
        {
            "kernel": model.kernel,
            "dtype": model.dtype,
            "tile": model.tile,
            "k": K,
            "tiles": tiles,
            "seconds": seconds,
            "model_seconds": one.predict(tiles),
            "slots": model.slots,
            "launch_seconds": model.launch_seconds,
            "wave_seconds": model.wave_seconds,
            "wave_k_seconds": model.wave_k_seconds,
        }
        for tiles, seconds in zip(one.tiles, one.seconds, strict=True)
    )
