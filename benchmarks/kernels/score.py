"""What is found of a kernel at a product, and the rows of results that this makes."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.kernels.measured import Row, Shape
from benchmarks.kernels.meter import Reading
from benchmarks.kernels.suite import Contestant, count_flops
from wavetrim.kernels.catalog import KernelSpec


@dataclass(slots=True)
class Score:
    """What is found of one contestant.

    Attributes:
        launches: Launches in a turn.
        max_relative_error: Largest error of the elements that are checked.
        same_bits: Whether both its products had the same bits.
        seconds: Mean of a launch in every turn.
        readings: Clock and power in these turns.
    """

    launches: int
    max_relative_error: float
    same_bits: bool
    seconds: list[float] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    @property
    def spent_seconds(self) -> float:
        """GPU time of all turns."""
        return sum(self.seconds) * self.launches


def find_rates(shape: Shape, scores: Mapping[Contestant, Score]) -> dict[Contestant, float]:
    """TFLOP/s of each, at the median of its turns."""
    return {
        one: count_flops(shape) / statistics.median(score.seconds) / 1e12
        for one, score in scores.items()
    }


def make_rows(
    shape: Shape,
    scores: Mapping[Contestant, Score],
    sm_count: int,
    full_rates: Mapping[KernelSpec, float] | None = None,
) -> list[Row]:
    """The rows of one contest.

    Args:
        shape: M, N, K.
        scores: What was found.
        sm_count: Multiprocessors of the GPU.
        full_rates: TFLOP/s that all multiprocessors reached, for kernels held to some of them.
    """
    rates = find_rates(shape, scores)
    cublas = {one.sms: one for one in scores if one.spec.source is None}
    rows = []
    for one, score in scores.items():
        spec, rate, peer = one.spec, rates[one], cublas.get(one.sms)
        median = statistics.median(score.seconds)
        full = full_rates.get(spec) if full_rates else None
        rows.append(
            Row(
                *(spec.name, str(spec.tile), spec.dtype, spec.accuracy, *shape),
                sms=one.sms or sm_count,
                tflops=rate,
                ratio_to_cublas=rate / rates[peer] if peer else None,
                max_relative_error=score.max_relative_error,
                cublas_max_relative_error=scores[peer].max_relative_error if peer else None,
                median_seconds=median,
                spread=(max(score.seconds) - min(score.seconds)) / median,
                turns=len(score.seconds),
                launches=score.launches,
                same_bits=score.same_bits,
                clock_mhz=_find_median([reading.clock_mhz for reading in score.readings]),
                power_watts=_find_median([reading.power_watts for reading in score.readings]),
                rate_share=rate / (full * one.sms / sm_count) if one.sms and full else None,
            )
        )
    return rows


def _find_median(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return statistics.median(told) if told else None
