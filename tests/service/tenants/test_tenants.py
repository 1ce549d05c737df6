"""What belongs to one caller is not there for any other, and all there is for an admin."""

import re
from collections import namedtuple

import pytest

from tests.leases import Lease
from tests.service.tenants.tenants import (
    OWN_KEY,
    finish_job,
    manage_keys,
    open_caller,
    post_job,
    store,
)
from wavetrim.service.app import create_app
from wavetrim.service.settings import Settings

UNKNOWN = "0" * 30

Callers = namedtuple("Callers", "ada bob root own")
"""Callers of one service, over its Unix socket."""

Things = namedtuple("Things", "ids product")
"""Ids of what is ada's, by their names in paths, and of a product."""


@pytest.fixture(scope="module")
def callers(server):
    made = [manage_keys(server, "add", name) for name in ("ada", "bob")]
    made += [manage_keys(server, "add", "root", "--scope", "admin"), OWN_KEY]
    clients = [open_caller(server, key, server.unix_socket) for key in made]
    yield Callers(*clients)
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def things(callers):
    matrix = store(callers.ada)["id"]
    job = finish_job(callers.ada, post_job(callers.ada, matrix, matrix))
    with Lease(callers.ada, 2**21) as lease:
        ids = {"matrix_id": matrix, "job_id": job["id"], "lease_id": lease.id}
        yield Things(ids, job["result"])


def list_calls():
    """The calls that name something by its id, as the application describes them.

    What the Open Inference Protocol names, its model, belongs to no caller.
    """
    every = create_app(Settings()).openapi()["paths"]
    paths = {path: methods for path, methods in every.items() if path.startswith("/v1/")}
    calls = [(m.upper(), path) for path in paths if "{" in path for m in paths[path]]
    return calls + [("HEAD", path) for method, path in calls if path.endswith(("data", "result"))]


def ask(client, method, path, **more):
    """An answer's status and body, where no id of a thing shows."""
    answer = client.request(method, path, **more)
    return answer.status_code, re.sub(r"[0-9a-f]{30,32}", "…", answer.text)


@pytest.mark.parametrize(
    "headers", [{}, {"Range": "bytes=0-3"}, {"If-None-Match": "*"}, {"If-Match": '"other"'}]
)
def test_a_thing_of_another_caller_is_answered_as_one_that_is_not_there(callers, things, headers):
    calls = list_calls()
    assert len(calls) >= 9
    assert {name for _, path in calls for name in re.findall(r"{(.*?)}", path)} == set(things.ids)
    for method, path in calls:
        waits = (method, path) == ("GET", "/v1/jobs/{job_id}")
        body = {"priority": 1} if method == "PATCH" else None
        for query in ("", "?wait_seconds=0.01") if waits else ("",):
            hers, nobodys = (
                ask(callers.bob, method, path.format(**ids) + query, headers=headers, json=body)
                for ids in (things.ids, dict.fromkeys(things.ids, UNKNOWN))
            )
            assert hers == nobodys, (method, path)
            assert hers[0] == 404, (method, path)
    for name, kind in (("matrix_id", "matrices"), ("job_id", "jobs"), ("lease_id", "leases")):
        assert callers.ada.get(f"/v1/{kind}/{things.ids[name]}").status_code == 200


def test_anothers_matrix_is_no_operand_and_no_place(callers, things):
    mine = store(callers.bob)["id"]
    for a, b in ((things.ids["matrix_id"], mine), (mine, things.product)):
        posted = post_job(callers.bob, a, b)
        assert (posted.status_code, posted.json()["title"]) == (404, "No such matrix")
    with Lease(callers.bob, 2**21) as lease:
        places = {name: lease.place(4096 * n, (2, 2))[1] for n, name in enumerate("ab")}
        for name in ("a", "b", "out"):
            place = {"lease": things.ids["lease_id"], "shape": [2, 2], "dtype": "float64"}
            document = {**places, "out": lease.place(8192, (2, 2))[1], name: place}
            assert callers.bob.post("/v1/matmul", json=document).status_code == 404


def test_a_caller_is_told_of_no_job_of_another_owner(server, callers):
    """An administrator's jobs may use anybody's matrices."""
    matrix = store(callers.ada, 900)["id"]
    with server.engine_stopped():
        hers = post_job(callers.root, matrix, matrix).json()["id"]
        refused = callers.ada.delete(f"/v1/matrices/{matrix}")
        assert (refused.status_code, refused.json()["value"]) == (409, matrix)
        assert refused.json()["detail"].endswith("is needed by job of another owner")
        own = post_job(callers.ada, matrix, matrix).json()["id"]
        told = callers.ada.delete(f"/v1/matrices/{matrix}").json()["detail"]
        assert told.endswith(f"by job {own}, one of another owner")
        assert (
            callers.root.delete(f"/v1/matrices/{matrix}")
            .json()["detail"]
            .endswith(f"by job {hers}, {own}")
        )
        for caller, shown in ((callers.ada, [own]), (callers.root, [hers, own])):
            listed = {one["id"]: one["used_by"] for one in server.list_all("matrices", 50, caller)}
            assert listed[matrix] == shown
    for job in (hers, own):
        callers.root.delete(f"/v1/jobs/{job}")


def test_lists_show_what_is_ones_own_page_by_page(server, callers, things):
    kept = [store(callers.bob)["id"] for _ in range(3)]
    jobs = [post_job(callers.bob, one, one).json()["id"] for one in kept]
    post_job(callers.ada, things.product, store(callers.ada)["id"])
    for kind, expected in (("matrices", kept), ("jobs", jobs)):
        foreign = callers.ada.get(f"/v1/{kind}?limit=1").json()["next_cursor"]
        assert foreign is not None
        found = server.list_all(kind, 2, callers.bob)
        answer = callers.bob.get(f"/v1/{kind}", params={"cursor": foreign})
        assert answer.status_code == (422 if kind == "jobs" else 200)
        page = answer.json().get(kind, [])
        assert {one["owner"] for one in [*found, *page]} <= {"bob"}
        ids = [one["id"] for one in found]
        assert set(expected) <= set(ids)
        assert len(set(ids)) == len(ids)
    assert callers.bob.get("/v1/jobs?state=succeeded").json()["jobs"][0]["owner"] == "bob"
    assert callers.bob.get("/v1/leases").json() == {"leases": []}


def test_the_same_idempotency_key_of_two_callers_is_two_requests(callers):
    key = {"Idempotency-Key": "once"}
    matrices = [store(client, **key) for client in (callers.ada, callers.bob, callers.own)]
    assert len({one["id"] for one in matrices}) == 3
    assert [one["owner"] for one in matrices] == ["ada", "bob", ""]
    jobs = []
    for client, matrix in zip((callers.ada, callers.bob), matrices, strict=False):
        assert store(client, **key) == matrix
        posted = [post_job(client, matrix["id"], matrix["id"], "once") for _ in range(2)]
        assert [one.status_code for one in posted] == [202, 200]
        jobs.append(posted[0].json()["id"])
        other = post_job(client, matrix["id"], store(client)["id"], "once")
        assert (other.status_code, other.json()["value"]) == (422, "once")
    assert len(set(jobs)) == 2


def test_a_product_is_its_jobs_owners(callers, things):
    product = callers.ada.get(f"/v1/matrices/{things.product}")
    assert (product.status_code, product.json()["owner"]) == (200, "ada")
    matrix = things.ids["matrix_id"]
    job = finish_job(callers.root, post_job(callers.root, matrix, matrix))
    assert job["owner"] == "root"
    assert callers.root.get(f"/v1/matrices/{job['result']}").json()["owner"] == "root"
    assert callers.ada.get(f"/v1/jobs/{job['id']}/result").status_code == 404


def test_an_admin_and_the_services_own_key_see_and_remove_all(callers, things):
    for admin in (callers.root, callers.own):
        for kind, name in (("matrices", "matrix_id"), ("jobs", "job_id"), ("leases", "lease_id")):
            shown = admin.get(f"/v1/{kind}/{things.ids[name]}").json()
            listed = admin.get(f"/v1/{kind}?limit=200").json()[kind] if kind != "leases" else []
            assert shown["owner"] == "ada"
            assert not listed or shown["id"] in {one["id"] for one in listed}
        assert admin.get(f"/v1/jobs/{things.ids['job_id']}/result").status_code == 200
        assert admin.delete(f"/v1/matrices/{store(callers.ada)['id']}").status_code == 204


def test_a_running_job_is_its_owners_to_wait_for_and_to_cancel(callers):
    slow = store(callers.ada, 1500)["id"]
    posted = post_job(callers.ada, slow, slow).json()
    path = f"/v1/jobs/{posted['id']}"
    while callers.ada.get(path).json()["state"] == "queued":
        pass
    for method, query in (("GET", ""), ("GET", "?wait_seconds=30"), ("DELETE", "")):
        assert callers.bob.request(method, path + query).status_code == 404
    assert not callers.ada.get(path).json()["cancel_requested"]
    assert callers.ada.get(f"{path}?wait_seconds=60").json()["state"] == "succeeded"


def test_statistics_of_the_protocol_are_the_callers_own(callers):
    tensors = [
        {"name": name, "datatype": "FP32", "shape": [1, 1], "data": [2]} for name in ("A", "B")
    ]
    document = {"inputs": tensors}
    for caller, times in ((callers.ada, 2), (callers.bob, 1)):
        for _ in range(times):
            assert caller.post("/v2/models/matmul/infer", json=document).is_success

    def count(caller):
        answer = caller.get("/v2/models/matmul/stats").json()
        return int(answer["model_stats"][0]["inference_count"])

    assert [count(caller) for caller in (callers.ada, callers.bob, callers.root)] == [2, 1, 3]
