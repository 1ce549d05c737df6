"""What both parts of a product should still take, by their curves and by what was seen of them."""

from dataclasses import dataclass, field
from typing import Final

from wavetrim.scheduler.model.cost import CostCurve

TRUST: Final = 0.03
"""Share of the plan's time that counts as seen to be as predicted, before anything is seen."""

LATE_SHARE: Final = 0.5
"""Share of a round's time that the smallest pieces take beyond that of their rows: they are cut
into smaller blocks, and some threads begin theirs late."""


@dataclass(frozen=True, slots=True, order=True)
class Milestone:
    """Rows that were done after some seconds."""

    rows: int
    seconds: float


START: Final = Milestone(0, 0.0)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far both parts are.

    Attributes:
        top: Rows that the GPU has taken.
        bottom: Rows that the CPU has not taken, counted from the top.
        elapsed_seconds: Seconds since the GPU began.
        cpu_seconds: Seconds since the CPU took its first rows, some time later.
        in_hand: Rows that the CPU has taken and not done, among them parts of those under way.
        computed: What the GPU is known to have computed, and when it had.
        computed_before: The same some panels before, for its pace.
    """

    top: int
    bottom: int
    elapsed_seconds: float = 0.0
    cpu_seconds: float = 0.0
    in_hand: float = 0.0
    computed: Milestone = START
    computed_before: Milestone = START


@dataclass(frozen=True, slots=True)
class Outlook:
    """Seconds that both parts should still take. Pure.

    Attributes:
        gpu: The GPU's curve beside the CPU.
        cpu: The CPU's beside the GPU.
        rows: M, the rows of C.
        total_seconds: What the plan should take.
        round_rows: Rows that occupy all threads of the CPU with blocks of the best size.
        standing: How far both are.
    """

    gpu: CostCurve
    cpu: CostCurve
    rows: int
    total_seconds: float
    round_rows: int
    standing: Standing
    # Asked for at many boundaries, so what is the same at all of them is reckoned once.
    _gpu_pace: float = field(init=False)
    _gpu_done_seconds: float = field(init=False)
    _cpu_pace: float = field(init=False)
    _cpu_done_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self._judge_gpu()
        self._judge_cpu()

    def estimate_gpu_seconds(self, bottom: int) -> float:
        """What the GPU should still take for all rows above `bottom`, which it has not passed."""
        return self._gpu_pace * (self.gpu.seconds(bottom) - self._gpu_done_seconds)

    def estimate_cpu_seconds(self, rows: int) -> float:
        """What the CPU should still take, with `rows` more than it has taken."""
        taken = self.rows - self.standing.bottom
        seconds = self.cpu.seconds(taken + rows) - self._cpu_done_seconds
        if taken and 0 < rows < self.round_rows:
            late_seconds = LATE_SHARE * self.cpu.seconds(self.round_rows)
            seconds += (1 - rows / self.round_rows) * late_seconds
        return self._cpu_pace * seconds

    def _judge_gpu(self) -> None:
        """The GPU's pace, and where it is on its curve.

        It is as slow or as fast as it was both lately and all in all: where copies out are what
        takes long, more is computed than planned at first, and less behind that. At least those
        rows are left that it has not taken.
        """
        standing, computed = self.standing, self.standing.computed
        before = standing.computed_before
        seconds = self.gpu.seconds(computed.rows)
        overall = self._compare(computed.seconds, seconds)
        lately = self._compare(
            computed.seconds - before.seconds, seconds - self.gpu.seconds(before.rows)
        )
        pace = sorted((overall, 1.0, lately))[1]
        done_seconds = min(seconds, computed.seconds / min(1.0, pace))
        done_seconds += (standing.elapsed_seconds - computed.seconds) / pace
        object.__setattr__(self, "_gpu_pace", pace)
        taken_seconds = self.gpu.seconds(standing.top)
        object.__setattr__(self, "_gpu_done_seconds", min(done_seconds, taken_seconds))

    def _judge_cpu(self) -> None:
        standing = self.standing
        taken = self.rows - standing.bottom
        seconds = self.cpu.seconds(max(0, round(taken - standing.in_hand)))
        pace = self._compare(standing.cpu_seconds, seconds) if taken else 1.0
        object.__setattr__(self, "_cpu_done_seconds", seconds)
        object.__setattr__(self, "_cpu_pace", pace)

    def _compare(self, seen_seconds: float, expected_seconds: float) -> float:
        """How many times as long as expected a part takes, by what was seen of it."""
        trust = TRUST * self.total_seconds
        return (seen_seconds + trust) / (expected_seconds + trust)
