"""The GPU's cost curve: waves of tiles, and the way through the pipeline."""

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Final

from wavetrim.scheduler.stream import ONE_STEP, Stream
from wavetrim.scheduler.waves import WaveGrid, divide_up

_COVERED_STARTS: Final = 6
"""A GPU part that takes so many times as long as the CPU part's start loses nothing by it."""


@dataclass(frozen=True, slots=True)
class GpuCurve:
    """The GPU's curve: a staircase of waves behind a link.

    A kernel that splits its last wave along K makes the steps of the staircase finer: rows of tiles
    in place of waves.

    Copies in, kernels and copies out overlap, so the busiest of them rules, behind what it has to
    wait for and before what has to wait for it (docs/performance.md):

    - The first panel goes through K in steps, as B, or some columns of it, and its A arrive: these
      end neither before both are there and the last one is computed, nor before the first one has
      what it needs and all of them are computed. Behind the last kernel the last rows are copied
      out.
    - Behind the copies in, the last panel is computed and copied out.
    - The copies out begin when these steps end, or the first of them if that completes columns.

    - Where the same threads stage both ways, all copies together take a share of their times' sum.

    Attributes:
        grid: Tiles and slots of the kernel on this GPU.
        wave_seconds: Seconds of one wave at this K.
        split_steps: Steps of K in a tile, where the kernel splits the last wave along K; None
            where it takes that wave whole.
        lead_wave_seconds: Seconds of a wave of the first panel, which takes K in parts; None where
            that panel takes all of it.
        launch_seconds: Seconds until the first wave runs.
        b_seconds: Seconds to copy B in.
        row_in_seconds: Seconds to copy one row of A in (and of C, when it is read).
        row_out_seconds: Seconds to copy one row of C out.
        stream: How the pipeline cuts the product into steps.
        step_seconds: Seconds that each step costs beyond its waves.
        call_seconds: Seconds that a call costs around the pipeline.
        together: What copies in and out take at the same time, as a share of what they take one
            after the other: 0.5 where neither way holds up the other, 1 where they take turns.
        copy_stretch: How many times as long copies take as these figures say.
        fill_seconds: Seconds that copies lose until they run at these rates.
        fill_rows: Rows of A from which on they lose all of it; the root of their share where there
            are fewer.
        start_seconds: Seconds that are lost while the CPU part starts.
        first_seconds: Seconds of the first panel's kernels.
        last_seconds: Seconds of the last panel's.
        lead_seconds: Seconds that these take beyond those of a single launch.
        panel_seconds: Seconds that each panel behind it takes beyond its part of the waves.
    """

    grid: WaveGrid
    wave_seconds: float
    split_steps: int | None = None
    lead_wave_seconds: float | None = None
    launch_seconds: float = 0.0
    b_seconds: float = 0.0
    row_in_seconds: float = 0.0
    row_out_seconds: float = 0.0
    stream: Stream = ONE_STEP
    step_seconds: float = 0.0
    call_seconds: float = 0.0
    together: float = 1.0
    copy_stretch: float = 1.0
    fill_seconds: float = 0.0
    fill_rows: float = 1.0
    start_seconds: float = 0.0
    first_seconds: float = field(init=False)
    last_seconds: float = field(init=False)
    lead_seconds: float = field(init=False)
    panel_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        # Looked at for every number of rows that a plan tries.
        first_rows = self.stream.first_rows
        first_seconds = self._find_lead_seconds(first_rows)
        object.__setattr__(self, "first_seconds", first_seconds)
        object.__setattr__(self, "last_seconds", self.kernel_seconds(self.stream.last_rows))
        lead_seconds = first_seconds - self.stream.lead_share * self.kernel_seconds(first_rows)
        object.__setattr__(self, "lead_seconds", max(0.0, lead_seconds))
        object.__setattr__(self, "panel_seconds", self._find_panel_seconds())

    def disturb(self, copy_stretch: float, start_seconds: float) -> "GpuCurve":
        """The curve beside the CPU part.

        Args:
            copy_stretch: How many times as long copies take.
            start_seconds: What is lost while the CPU part starts.
        """
        return replace(
            self,
            copy_stretch=copy_stretch * self.copy_stretch,
            start_seconds=self.start_seconds + start_seconds,
        )

    def kernel_seconds(self, rows: int) -> float:
        """Seconds of the kernels alone."""
        if rows == 0:
            return 0.0
        if self.split_steps is None:
            waves: float = self.grid.count_waves(rows)
        else:
            waves = self.grid.count_split_waves(rows, self.split_steps)
        return self.launch_seconds + waves * self.wave_seconds

    def panelled_seconds(self, rows: int) -> float:
        """Seconds of the kernels as they are launched: panel by panel, the first one in parts."""
        beyond = rows - self.stream.first_rows
        panels = beyond // self.stream.panel_rows if beyond > 0 else 0
        return self.kernel_seconds(rows) + self.lead_seconds + panels * self.panel_seconds

    def _find_lead_seconds(self, rows: int) -> float:
        """Seconds of the first panel's kernels, a launch for each part of K."""
        if self.lead_wave_seconds is None:
            return self.kernel_seconds(rows)
        parts = self.stream.lead_steps
        if self.split_steps is None:
            waves: float = self.grid.count_waves(rows)
        else:
            waves = self.grid.count_split_waves(rows, divide_up(self.split_steps, parts))
        share = self.stream.lead_share
        return parts * (self.launch_seconds + share * waves * self.lead_wave_seconds)

    def _find_panel_seconds(self) -> float:
        """What a panel costs beside its part of the waves: less than one takes as long as one."""
        tiles = self.grid.count_tiles(self.stream.panel_rows)
        if tiles >= self.grid.slots:
            return self.launch_seconds
        share_seconds = tiles / self.grid.slots * self.wave_seconds
        return max(self.launch_seconds, self.kernel_seconds(self.stream.panel_rows) - share_seconds)

    def transfer_seconds(self, rows: int) -> float:
        """Seconds of the copies alone, in and out, if nothing overlapped."""
        if rows == 0:
            return 0.0
        row_seconds = self.row_in_seconds + self.row_out_seconds
        return self.copy_stretch * (self.b_seconds + rows * row_seconds)

    def find_copying_share(self, rows: int) -> float:
        """For how much of their time copies are under way, 0…1."""
        if rows == 0:
            return 0.0
        in_seconds = self.copy_stretch * (self.b_seconds + rows * self.row_in_seconds)
        out_seconds = self.copy_stretch * rows * self.row_out_seconds
        both_seconds = self.together * (in_seconds + out_seconds)
        return min(1.0, max(in_seconds, out_seconds, both_seconds) / self.seconds(rows))

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows, from the caller's memory back into it."""
        return self.disturbed_seconds(rows, 1.0, 0.0)

    def disturbed_seconds(self, rows: int, copy_stretch: float, start_seconds: float) -> float:
        """The same as of the curve that `disturb` makes, for a single look."""
        if rows == 0:
            return 0.0
        stretch = copy_stretch * self.copy_stretch
        fill_seconds = self.fill_seconds * self.find_filled_share(rows)
        seconds = self.call_seconds + fill_seconds + self._find_streamed_seconds(rows, stretch)
        # What has been enqueued before the CPU part starts keeps a long part busy meanwhile.
        lost_seconds = self.start_seconds + start_seconds
        return seconds + max(0.0, lost_seconds - seconds / _COVERED_STARTS)

    def _find_streamed_seconds(self, rows: int, stretch: float) -> float:
        """The longest of the four ways through the pipeline, copies taking `stretch` as long."""
        stream = self.stream
        kernel_seconds = self.panelled_seconds(rows)
        first_seconds = min(kernel_seconds, self.first_seconds)
        led_seconds, begun_seconds = self._find_led_seconds(rows, first_seconds, stretch)
        drain_seconds = stretch * min(rows, stream.last_rows) * self.row_out_seconds
        in_seconds = stretch * (self.b_seconds + rows * self.row_in_seconds)
        out_seconds = stretch * rows * self.row_out_seconds
        both_seconds = self.together * (in_seconds + out_seconds)
        computed = led_seconds + kernel_seconds - first_seconds
        computed += (stream.count_steps(rows) - stream.lead_steps) * self.step_seconds
        last_seconds = min(kernel_seconds, self.last_seconds)
        if rows <= stream.first_rows:
            last_seconds = first_seconds / stream.lead_steps
        last_step_seconds = self.step_seconds + last_seconds
        return max(
            computed + drain_seconds,
            in_seconds + last_step_seconds + drain_seconds,
            begun_seconds + out_seconds,
            both_seconds + last_step_seconds,
        )

    def _find_led_seconds(
        self, rows: int, first_seconds: float, stretch: float
    ) -> tuple[float, float]:
        """When the first panel has gone through K, and when the first of C may leave.

        Args:
            rows: Rows of the product.
            first_seconds: What the panel's kernels take.
            stretch: How many times as long copies take.
        """
        stream, parts = self.stream, self.stream.lead_steps
        a_seconds = stretch * min(rows, stream.first_rows) * self.row_in_seconds
        b_seconds = stretch * stream.lead_share * self.b_seconds
        loaded_seconds = a_seconds + b_seconds
        lead_seconds = parts * self.step_seconds + first_seconds
        led_seconds = max(
            loaded_seconds + lead_seconds / parts, loaded_seconds / parts + lead_seconds
        )
        if stream.by_columns:
            return led_seconds, a_seconds + (b_seconds + lead_seconds) / parts
        return led_seconds, led_seconds

    def find_filled_share(self, rows: int) -> float:
        """How much of `fill_seconds` the copies of so many rows lose, 0…1."""
        return sqrt(min(1.0, rows / self.fill_rows))

    def estimate_rows(self, seconds: float) -> float:
        """About how many rows take `seconds`: what both the waves and the copies allow."""
        way_seconds = self.row_in_seconds, self.row_out_seconds
        row_seconds = self.copy_stretch * max(*way_seconds, self.together * sum(way_seconds))
        b_seconds = self.copy_stretch * self.b_seconds
        left = seconds - self.call_seconds
        computing = left - self.launch_seconds - b_seconds / self.stream.first_steps
        waves = max(0.0, computing / self.wave_seconds)
        whole = int(waves) if self.split_steps is None else waves
        rows = self.grid.rows_in_tiles(int(whole * self.grid.slots))
        if row_seconds == 0:
            return rows
        return min(rows, (left - b_seconds) / row_seconds)
