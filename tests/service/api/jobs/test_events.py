"""Jobs followed by server-sent events, over HTTP on a real server."""

import json
import os
import signal
import threading
import time
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pytest

from tests.limit import allow
from tests.matrices import make_matrix
from tests.processes import wait_until
from tests.server import open_http
from tests.service.tenants.tenants import OWN_KEY, manage_keys, open_caller, post_job, store

VARYING = ("date", "x-request-id")
"""Headers that differ from answer to answer."""

SLOW = make_matrix(1300, 1300, "int64", seed=1)
"""A product of this takes one thread about a second."""


@contextmanager
def follow(client, path, **headers):
    """The events of a path as they come, the comments among them as events named ""."""

    def read(response):
        event = {}
        for line in response.iter_lines():
            if not line:
                yield {"event": "", **event}
                event = {}
            name, _, value = line.partition(": ")
            if name:
                event[name] = value

    with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield read(response)


def read_jobs(events):
    return (json.loads(event["data"]) for event in events if event["event"] == "job")


def post_slow(server):
    matrix = server.upload(SLOW)
    return server.post_job(matrix, matrix)


def test_a_job_is_followed_to_its_end(server):
    path = f"/v1/jobs/{post_slow(server)}"
    with follow(server.client, f"{path}/events") as events:
        found = list(events)
    seen = list(read_jobs(iter(found)))
    shares = [job["progress"] for job in seen]
    assert shares == sorted(shares)
    running = [job for job in seen if job["rows_done"]]
    assert running, seen
    for job in running:
        assert job["rows_done"]["cpu"] == pytest.approx(job["progress"] * len(SLOW))
    assert seen[-1] == server.client.get(path).json()
    assert (seen[-1]["state"], found[-1]["id"]) == ("succeeded", "end")
    # An EventSource comes back after the end, with the last id that it has read.
    again = server.client.get(f"{path}/events", headers={"Last-Event-ID": "end"})
    assert (again.status_code, again.content) == (204, b"")


def test_head_has_the_headers_of_a_stream_and_leaves_none_open(server):
    matrix = server.upload(np.ones((5, 5)))
    posted = server.post_job(matrix, matrix)
    for path in ("/v1/jobs/events", f"/v1/jobs/{posted}/events"):
        with server.client.stream("GET", path) as stream:
            told = {name: stream.headers[name] for name in stream.headers if name not in VARYING}
        assert told.pop("transfer-encoding") == "chunked"
        for _ in range(100):  # more than the connections that streams may have
            head = server.client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert {x: head.headers[x] for x in head.headers if x not in VARYING} == told
    assert server.client.head("/v1/jobs/none/events").status_code == 404


def test_a_stream_counts_as_a_request_but_not_as_latency(server):
    told = server.client.get("/metrics").text
    route = 'route="/v1/jobs/{job_id}/events"'
    assert any(route in line for line in told.splitlines() if "_requests_total" in line)
    assert not any(route in line for line in told.splitlines() if "_bucket" in line)


def test_a_stream_outlives_the_engine(server):
    job_id = post_slow(server)
    with follow(server.client, f"/v1/jobs/{job_id}/events") as events:
        jobs = read_jobs(events)
        next(job for job in jobs if job["progress"] > 0)
        os.kill(server.find_engine(), signal.SIGKILL)
        last = list(jobs)[-1]
    assert (last["state"], last["attempts"]) == ("succeeded", 2)


def test_a_cancellation_is_told(server):
    job_id = post_slow(server)
    with follow(server.client, "/v1/jobs/events") as events:
        next(events)
        server.client.delete(f"/v1/jobs/{job_id}").raise_for_status()
        told = (job for job in read_jobs(events) if job["id"] == job_id)
        states = []
        for job in told:
            states.append((job["state"], job["cancel_requested"]))
            if job["finished_at"] is not None:
                break
    assert states[-1] == ("cancelled", True)


def test_callers_hear_of_their_own_jobs(start_server):
    server = start_server(api_key=OWN_KEY)
    with (
        closing(open_caller(server, manage_keys(server, "add", "ada"))) as ada,
        closing(open_caller(server, manage_keys(server, "add", "bob"))) as bob,
        closing(open_caller(server, OWN_KEY)) as own,
        follow(ada, "/v1/jobs/events") as adas,
        follow(own, "/v1/jobs/events") as all_of_them,
    ):
        next(adas), next(all_of_them)
        posted = [post_job(one, *(store(one)["id"],) * 2).json()["id"] for one in (bob, ada)]
        hers = read_jobs(adas)
        assert {next(hers)["id"] for _ in range(2)} == {posted[1]}
        theirs, seen = read_jobs(all_of_them), set()
        while seen != set(posted):
            seen.add(next(theirs)["id"])
        for path in (f"/v1/jobs/{posted[0]}/events", "/v1/jobs/none/events"):
            assert ada.get(path).json()["status"] == 404
    assert server.client.get("/v1/jobs/events").status_code == 401


@pytest.mark.parametrize("change", ["renew", "revoke"])
def test_a_stream_ends_with_the_key_of_its_caller(start_server, change):
    server = start_server(api_key=OWN_KEY)
    with (
        closing(open_caller(server, manage_keys(server, "add", "ada"))) as ada,
        closing(open_caller(server, OWN_KEY)) as own,
    ):
        one, slow = store(ada)["id"], store(ada, 1300)["id"]
        with (
            follow(ada, "/v1/jobs/events") as listed,
            open_http(server.url, headers=dict(ada.headers)) as again,
            follow(again, f"/v1/jobs/{post_job(ada, slow, slow).json()['id']}/events") as one_job,
        ):
            next(listed), next(one_job)
            key = manage_keys(server, change, "ada")
            wait_until(lambda: ada.get("/v1/me").status_code == 401)
            began = time.monotonic()
            if change == "renew":  # what the new key does is not told to the old one
                with closing(open_caller(server, key)) as renewed:
                    made = post_job(renewed, one, one).json()["id"]
                    assert made not in {job["id"] for job in read_jobs(listed)}
            list(listed), list(one_job)
            assert time.monotonic() - began < allow(20)  # a beat is 15 s
        assert own.get("/v1/jobs").is_success


def test_streams_leave_connections_and_the_database_to_others(start_server):
    server = start_server(max_connections=24)
    path = "/v1/jobs/events"
    with ExitStack() as stack:
        for _ in range(6):
            client = stack.enter_context(open_http(server.url))
            next(stack.enter_context(follow(client, path)))
        refused = server.client.get(path)
        assert refused.status_code == 503
        assert refused.json()["limit"] == "at most 6"
        one = server.upload(np.ones((5, 5)))
        server.run_job(one, one)

    def is_free():
        with server.client.stream("GET", path) as response:
            return response.status_code == 200

    wait_until(is_free)  # those who left are seen to have


def test_streams_end_when_the_service_stops(start_server):
    server = start_server()
    with open_http(server.url) as reader, follow(reader, "/v1/jobs/events") as events:
        next(events)
        stopped = threading.Thread(target=server.stop)
        stopped.start()
        assert [event for event in events if event["event"]] == []
        stopped.join()
    assert server.process.poll() == 0
    assert "Traceback" not in server.read_log()


@pytest.mark.gpu
def test_the_rows_of_both_sides_of_a_split_are_told(start_server):
    server = start_server(devices="0", cpu_threads=4)
    matrix = server.upload(make_matrix(12000, 12000, "float64", seed=1))
    posted = server.post_job(matrix, matrix, f=600)
    with follow(server.client, f"/v1/jobs/{posted}/events") as events:
        told = [job["rows_done"] for job in read_jobs(events) if job["rows_done"]]
    assert told, "the product was done before its progress was told"
    for side in ("gpu", "cpu"):
        rows = [done[side] for done in told]
        assert rows == sorted(rows)
        assert rows[-1] > 0
    assert told[-1]["cpu"] <= 600
