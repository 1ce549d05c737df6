"""Jobs from the accepted POST until they have succeeded, with results on disk and in memory."""

import time
from contextlib import closing
from typing import Final, Literal

import wavetrim
from benchmarks.common.operands import draw_operands
from benchmarks.common.turns import take_turns
from benchmarks.http.baselines import OURS, BaselineFailed
from benchmarks.http.client import Address
from benchmarks.http.rows import Case, Row, summarize_rounds
from wavetrim.client import ClientError

ROUNDS: Final = 7
LEAST_ROUNDS: Final = 3
PAUSE_SECONDS: Final = 0.2
"""Pause before every turn, in which the last one's deferred work is done."""

STORAGES: Final[dict[str, Literal["disk", "memory"]]] = {"job": "disk", "job-memory": "memory"}


def measure_jobs(address: Address, size: int, dtype: str, until: float) -> list[Row]:
    """Square jobs of stored operands, in turns with results on disk and in memory.

    Raises:
        BaselineFailed: A job did not succeed, or the service refused a call.
    """
    operands = draw_operands((size, size, size), dtype)
    seconds: dict[str, list[float]] = {what: [] for what in STORAGES}
    with closing(wavetrim.Client("http://{}:{}".format(*address))) as client:
        try:
            a, b = client.put(operands.a), client.put(operands.b)
            for _, what in take_turns(STORAGES, ROUNDS, least=LEAST_ROUNDS, until=until):
                time.sleep(PAUSE_SECONDS)
                job = client.submit(a, b, storage=STORAGES[what])
                accepted = time.perf_counter()
                ended = job.wait()
                seconds[what].append(time.perf_counter() - accepted)
                client.delete(str(ended.result))
            client.delete(a)
            client.delete(b)
        except ClientError as error:
            raise BaselineFailed(f"{type(error).__name__}: {error}") from error
    return [
        summarize_rounds(Case(what, size, dtype, clients=1), OURS, [[one] for one in of])
        for what, of in seconds.items()
    ]
