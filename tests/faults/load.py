"""Callers who ask for jobs, uploads and products during a fault, and ask again under their key."""

import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import numpy as np

from tests.faults.ledger import Array
from tests.server import NPY, decode_npy, encode_npy, open_http

PATIENCE_SECONDS = 90.0
"""A caller without an answer for this long gives up: the service hangs."""

_AGAIN_SECONDS = 0.2
_LOOK_SECONDS = 0.02
_REFUSALS = (404, 409, 507)
"""The service has no room, a matrix is damaged, or a restored database has not heard of the job
whose result is an operand: nothing was accepted."""

_LATE = "2999-01-01T00:00:00Z"
"""A deadline that every job meets."""

SIZES = (9, 300, 500)
"""Of the operands. A job of the largest takes some tenths of a second on one core."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An operand A, and A·A and A·A·A, exact in float64."""

    matrix: Array
    product: Array
    cube: Array


def make_pairs():
    """Operands of whole numbers, so that every order of summation gives the same bytes."""
    random = np.random.default_rng(15)
    pairs = []
    for size, dtype in zip(SIZES, ("float32", "float64", "int64"), strict=True):
        # The second is a stack of three matrices.
        shape = (3, size // 3, size // 3) if dtype == "float64" else (size, size)
        wide = random.integers(-8, 8, shape).astype(np.float64)
        powers = wide, wide @ wide, wide @ wide @ wide
        pairs.append(Pair(*(power.astype(dtype) for power in powers)))
    return pairs


class Load:
    """What callers ask for in one round, which begins at once: products of each operand."""

    def __init__(self, ledger, pairs):
        self._ledger = ledger
        self._pairs = pairs
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="caller")
        ids = list(pairs)
        asked = (
            *((self._post_job, name) for name in (*ids, *reversed(ids), *ids)),
            *((self._post_chain, name) for name in ids),
            (self._post_list, ids),
            *itertools.repeat((self._upload,), 3),
            *((self._multiply, name) for name in ids[:2]),
        )
        self._calls = [self._pool.submit(*call) for call in asked]

    def join(self):
        self._pool.shutdown()
        for call in self._calls:
            call.result()

    def _post_job(self, name):
        job = self._post({"a": name, "b": name})
        if job is None:
            return None
        job_id = job["id"]
        self._ledger.add_job(job_id, self._pairs[name].product)
        return job_id

    def _post_chain(self, name):
        """A job, and another one that multiplies its result before a deadline."""
        if (first := self._post_job(name)) is not None:
            body = {"a": {"job": first}, "b": name, "deadline": _LATE, "labels": ["chain"]}
            if (job := self._post(body)) is not None:
                self._ledger.add_job(job["id"], self._pairs[name].cube)

    def _post_list(self, names):
        """All of them are accepted, or none."""
        jobs = self._post([{"a": name, "b": name} for name in names])
        for name, job in zip(names, jobs or (), strict=jobs is not None):
            self._ledger.add_job(job["id"], self._pairs[name].product)

    def _post(self, body):
        key = {"Idempotency-Key": uuid.uuid4().hex}
        answer = self._ask(lambda to: to.post("/v1/jobs", json=body, headers=key))
        return None if answer is None else answer.json()

    def _upload(self):
        matrix = np.random.default_rng().integers(-8, 8, (200, 300)).astype(np.float32)
        headers = {**NPY, "Idempotency-Key": uuid.uuid4().hex}
        content = encode_npy(matrix)
        answer = self._ask(lambda to: to.post("/v1/matrices", content=content, headers=headers))
        if answer is not None:
            self._ledger.add_upload(answer.json()["id"], matrix)

    def _multiply(self, name):
        pair = self._pairs[name]
        content = 2 * encode_npy(pair.matrix)
        answer = self._ask(lambda to: to.post("/v1/matmul", content=content, headers=NPY))
        if answer is not None and not np.array_equal(decode_npy(answer.content), pair.product):
            self._ledger.note("damaged", "an answered product")

    def _ask(self, call):
        """Ask until there is an answer; None where that is a refusal."""
        end = time.monotonic() + PATIENCE_SECONDS
        last = "nothing"
        while time.monotonic() < end:
            try:
                with open_http(self._ledger.server.url, timeout=30) as client:
                    answer = call(client)
            except httpx.TransportError as error:
                last = repr(error)
            else:
                if answer.is_success:
                    return answer
                last = answer.text
                if not is_problem(answer) or answer.status_code not in (*_REFUSALS, 429, 503):
                    self._ledger.note("unexplained", f"{answer.status_code}: {last}")
                    return None
                if answer.status_code in _REFUSALS:
                    return None
            time.sleep(_AGAIN_SECONDS)
        self._ledger.note("unexplained", f"no answer in {PATIENCE_SECONDS:g} s, but {last}")
        return None


def is_problem(answer):
    """Whether an answer is a problem document with words."""
    kind = answer.headers.get("Content-Type")
    return kind == "application/problem+json" and bool(answer.json().get("detail"))


def wait_recovered(ledger, name, pair):
    """Waits until a product that is asked for now, before all others, is stored."""
    body = {"a": name, "b": name, "priority": 1000}
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    end = time.monotonic() + PATIENCE_SECONDS
    job_id = None
    while True:
        assert time.monotonic() < end, "the service computes nothing any more"
        client = ledger.server.client
        try:
            if job_id is None:
                answer = client.post("/v1/jobs", json=body, headers=headers)
                if answer.is_success:
                    job_id = answer.json()["id"]
                    ledger.add_job(job_id, pair.product)
                    continue
            else:
                answer = client.get(f"/v1/jobs/{job_id}?wait_seconds=10")
                if answer.is_success and answer.json()["state"] not in ("queued", "running"):
                    return
        except httpx.TransportError:
            pass
        time.sleep(_LOOK_SECONDS)
