"""How many products in one call may wait."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from wavetrim.service.jobs.errors import QueueFull
from wavetrim.service.jobs.products import Products
from wavetrim.service.settings import Settings


def test_one_product_more_than_may_wait_is_refused_with_field_value_and_limit() -> None:
    lane = SimpleNamespace(waiting=1)
    nothing = cast("Any", SimpleNamespace())
    products = Products(cast("Any", lane), nothing, Settings(max_queued_jobs=2), nothing)
    products.check_admission()
    lane.waiting = 2
    with pytest.raises(QueueFull) as refused:
        products.check_admission()
    assert (refused.value.field, refused.value.value) == ("waiting products", 3)
    assert refused.value.limit == "at most 2 (max_queued_jobs)"
    assert refused.value.retry_after_seconds == 1
