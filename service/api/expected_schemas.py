"""Schema of when a job begins and ends."""

from datetime import datetime

from pydantic import BaseModel, Field

from wavetrim.service.clock import show_time
from wavetrim.service.jobs.estimate import Expected
from wavetrim.service.jobs.past import Span


class ExpectedView(BaseModel):
    """When a job begins and ends, as far as is known."""

    position: int = Field(description="Products that go before it; 0 if it is next, or runs.")
    starts_at: datetime = Field(description="When it begins; of a job that runs, when it did.")
    starts_between: tuple[datetime, datetime] = Field(description="It does so here, with 90%.")
    ends_at: datetime = Field(description="When it ends.")
    ends_between: tuple[datetime, datetime] = Field(description="It does so here, with 90%.")
    reason: str = Field(description="What it waits for, in a sentence.")


def show_expected(expected: Expected) -> ExpectedView:
    """When a job should begin and end, as it is sent."""
    begins, ends = expected.begins, expected.ends
    return ExpectedView(
        position=expected.position,
        starts_at=show_time(begins.at),
        starts_between=_show_range(begins),
        ends_at=show_time(ends.at),
        ends_between=_show_range(ends),
        reason=expected.reason,
    )


def _show_range(span: Span) -> tuple[datetime, datetime]:
    return show_time(span.low), show_time(span.high)
