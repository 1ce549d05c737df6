"""How many products in one call may wait."""

import asyncio

import pytest

from tests.service.parts import make_parts
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.service.jobs.errors import QueueFull

PLACE = Operand(1, 0, 900, 900, "float32")


def test_one_product_more_than_a_caller_may_have_waiting_is_refused(tmp_path):
    async def scenario():
        parts, request = make_parts(tmp_path, max_queued_jobs=2), RunRequest("", *[PLACE] * 4)
        tasks = []
        for _ in range(2):
            parts.products.check_admission("ada")
            computing = parts.products.compute(request, (), asyncio.Event().wait, caller="ada")
            tasks.append(asyncio.create_task(computing))
            await asyncio.sleep(0)
        with pytest.raises(QueueFull) as refused:
            parts.products.check_admission("ada")
        assert (refused.value.field, refused.value.value) == ("waiting products", 3)
        assert refused.value.limit == "at most 2 of a caller (max_queued_jobs)"
        assert refused.value.retry_after_seconds == 1
        parts.products.check_admission("bob")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        parts.products.check_admission("ada")

    asyncio.run(scenario())
