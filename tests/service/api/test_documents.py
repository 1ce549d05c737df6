"""What a caller's document costs is bounded by its structure, and one parser reads them all."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.limit import allow
from tests.own_memory import watch_growth
from tests.refusals import expect_refusal
from tests.server import make_server_fixture, open_http

INFER = "/v2/models/matmul/infer"
JSON = {"Content-Type": "application/json"}
ONE = '{"name": "B", "datatype": "FP32", "shape": [1, 1], "data": [1]}'

local_server = make_server_fixture(has_socket=True)


def worst_latency(server, work):
    """The longest answer of /healthz/live while something is done, in seconds."""
    ended, worst = Event(), 0.0
    with ThreadPoolExecutor(1) as pool, open_http(server.url) as client:
        client.get("/healthz/live")
        pool.submit(work).add_done_callback(lambda _: ended.set())
        while not ended.is_set():
            began = time.monotonic()
            client.get("/healthz/live")
            worst = max(worst, time.monotonic() - began)
    return worst


def repeat(text, count):
    return ",".join([text] * count)


def write(form, *parts):
    """A document with parts in place of its tildes."""
    for part in parts:
        form = form.replace("~", part, 1)
    return form


HOSTILE = {
    "parameters": ('{"parameters": {~}}', ",".join(f'"p{i}": 1' for i in range(500_000))),
    "objects": ('{"inputs": [~]}', repeat("{}", 2_000_000)),
    "lists of one number": ('{"inputs": [~]}', repeat("[1]", 1_900_000)),
    "numbers": ('{"inputs": [~]}', repeat("1", 4_000_000)),
    "numbers for tensors": ('{"inputs": [~]}', repeat("1", 500_000)),
    "sizes": ('{"inputs": [{"name": "A", "datatype": "FP32", "shape": [~]}, ~]}',
              repeat("0", 500_000), ONE),
    "a list for an object": ('{"inputs": [~, ~], "parameters": [~]}', ONE, ONE,
                             repeat("0.125", 500_000)),
    "texts": ('{"inputs": [~]}', repeat('""', 2_000_000)),
    "a long text": ('{"id": "~"}', "x" * 8_000_000),
    "a long number": ('{"id": ~}', "1" * 8_000_000),
    "a long text for a number": ('{"inputs": [~, ~]}', ONE,
                                 ONE.replace("[1]", f'["{"x" * 8_000_000}"]')),
    "escapes": ('{"id": "~"}', "\\\\" * 4_000_000),
    "depth": ("~", "[" * 8_000_000),
}  # fmt: skip


@pytest.mark.serial
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_documents_structure_costs_neither_memory_nor_the_other_callers_time(local_server, kind):
    document = write(*HOSTILE[kind])
    answers = []

    def send():
        answers.append(local_server.client.post(INFER, content=document.encode(), headers=JSON))

    with watch_growth(local_server.process.pid) as growth:
        assert worst_latency(local_server, send) < allow(0.2)
    assert growth.grown_bytes < 150 * 2**20
    assert answers[0].status_code in (400, 422), answers[0].text[:500]
    assert len(answers[0].content) < 5000


@pytest.mark.serial
def test_32_callers_who_ask_for_plans_leave_the_service_live(local_server):
    def ask(number):
        with open_http(local_server.url) as client:
            for i in range(2):
                m = 16384 + 64 * number + 2048 * i
                path = f"/v1/plan?m={m}&n=16384&k=16384&device=H200"
                assert client.get(path).status_code == 200

    def ask_all():
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(ask, range(32)))

    assert worst_latency(local_server, ask_all) < allow(0.2)


@pytest.mark.parametrize("name", ["alpha", "\\u0061lpha", "al\\u0070ha"])
@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/v1/jobs", '{"a": "x", "b": "y", ~}'),
        ("/v1/matmul", '{"a": {~}}'),
        ("/v1/leases", '{"bytes": 1, ~}'),
        (INFER, '{"inputs": [1, {"parameters": {~}}]}'),
        ("/v1/jobs", '{"a": "x", "b": "y", "x": {"y": "}\\"{", ~}}'),
    ],
)
def test_equal_names_in_an_object_are_refused_by_every_route(local_server, path, document, name):
    content = write(document, f'"alpha": 2, "{name}": 3')
    socket = Path(local_server.settings["unix_socket"])
    with open_http(socket) as client:
        answer = client.post(path, content=content.encode(), headers=JSON)
    expect_refusal(answer, 422, "alpha", value="3", limit="given once")


def test_a_query_of_more_than_100_fields_is_refused_before_it_is_read(local_server):
    answer = local_server.client.get("/v1/plan?" + "a=1&" * 15_000)
    assert (answer.status_code, answer.json()["field"]) == (422, "query fields")
