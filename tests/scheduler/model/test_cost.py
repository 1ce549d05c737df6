"""The CPU's curve while its cores wake up."""

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.model.cost import CpuCurve


@given(
    st.floats(1e-9, 1e-3), st.floats(0, 100), st.floats(0, 1e-3), st.floats(0, 1e-2),
    st.integers(1, 10_000),
)  # fmt: skip
def test_cores_that_wake_up_cost_at_most_their_time_and_the_products_own(
    row_seconds: float, startup_rows: float, call_seconds: float, wake_seconds: float, rows: int
) -> None:
    awake = CpuCurve(row_seconds, startup_rows, call_seconds)
    asleep = CpuCurve(row_seconds, startup_rows, call_seconds, wake_seconds=wake_seconds)
    more_seconds = asleep.seconds(rows) - awake.seconds(rows)
    work_seconds = awake.seconds(rows) - call_seconds
    assert 0 <= more_seconds <= 1.000001 * min(wake_seconds, work_seconds) + 1e-12
    assert asleep.seconds(rows) <= asleep.seconds(rows + 1)
    assert asleep.seconds(0) == 0
