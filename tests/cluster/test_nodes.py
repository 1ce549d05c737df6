"""Products over the nodes of a cluster: right, whatever happens to the nodes."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.cluster.local_cluster import list_engines, start_cluster
from tests.command import invoke_command, start_command
from tests.matrices import FLOATS, assert_product, make_matrix
from tests.processes import wait_until
from tests.server import RunningServer
from wavetrim.client import Client
from wavetrim.scheduler.profile import store

pytestmark = pytest.mark.slow

NODES = 3

ROWS = 1200
"""Of a product that takes a node a second."""

NODE_GFLOPS, HEAD_GFLOPS = 0.6, 0.03
"""By their calibrations. A block that takes 20 times as long as they say is given up."""

CALIBRATED_AT = "2026-01-01T00:00:00+00:00"

TRIES = 3
"""To see what needs all nodes."""

KILLS = int(os.environ.get("WAVETRIM_NODE_KILLS", "3"))
"""Engines that are killed in the middle of products; 50 for a long look."""


@pytest.fixture(scope="module")
def cluster():
    with start_cluster(NODES, prepare=partial(store_profile, gflops=NODE_GFLOPS)) as cluster:
        yield cluster


def store_profile(folder, *, gflops):
    """A calibration by which the CPU is slow, so that several nodes are asked to compute.

    All of them are on one machine: by what is measured the way to a node may not pay on a busy one.
    """
    profile = store.find_profile("cpu", devices=(), directory=None, cpu_threads=1)
    cpu = replace(
        profile.cpu,
        float32_gflops=gflops,
        float64_gflops=gflops,
        thread_gflops=gflops,
        read_gbytes_per_second=1e6,
        write_gbytes_per_second=1e6,
    )
    key = store.read_key(None, 1)
    store.store_profile(replace(profile, key=key, measured_at=CALIBRATED_AT, cpu=cpu), folder)


@pytest.fixture(scope="module")
def server(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("head") / "data"
    store_profile(folder / "profiles", gflops=HEAD_GFLOPS)
    with RunningServer(folder, ray_address=cluster.address, stall_seconds=5) as server:
        wait_for_nodes(server, NODES)
        yield server


@pytest.fixture
def client(server):
    with Client(server.url) as client:
        yield client


def list_nodes(server):
    return server.client.get("/v1/devices").json()["nodes"]


def wait_for_nodes(server, count):
    wait_until(lambda: len(list_nodes(server)) == count, 60)


def assert_soon(server, happens):
    """Assert what holds while no node is lost: a machine that stalls may lose one, to return."""
    for _ in range(TRIES):
        wait_for_nodes(server, NODES)
        if happens():
            return
    losses = [line for line in server.read_log().splitlines() if "WARNING" in line]
    raise AssertionError(f"not seen in {TRIES} tries; of nodes:\n" + "\n".join(losses[-20:]))


def multiply_exactly(a, b):
    """The product of integers by NumPy's BLAS: quick, and exact, as float64 holds the sums."""
    return a.astype(np.float64) @ b.astype(np.float64)


def find_nodes(jobs):
    """The nodes that computed jobs; None for the service's machine."""
    plans = [job.wait().plan or {} for job in jobs]
    return {None if plan["node"] is None else plan["node"]["id"] for plan in plans}


def test_the_devices_of_all_nodes_are_listed(server, tmp_path):
    assert server.client.get("/v1/devices").json()["profile"]["measured_at"] == CALIBRATED_AT
    nodes = list_nodes(server)
    assert len({node["id"] for node in nodes}) == NODES
    for node in nodes:
        assert node["cpu_threads"] == 1
        assert node["devices"] == []
        assert node["network"]["in_bytes_per_second"] > 0
        assert node["profile"]["source"]
    shown = invoke_command("devices", "--url", server.url, folder=tmp_path).stdout
    assert all(node["id"][:12] in shown for node in nodes)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
def test_products_over_nodes_are_numpys(client, dtype):
    a, b = make_matrix(700, 600, dtype, seed=3), make_matrix(600, 800, dtype, seed=4)
    c = make_matrix(700, 800, dtype, seed=5)
    product = client.matmul(np.asfortranarray(a), b, c=c, alpha=2, beta=-3, verify=True)
    assert_product(product, a, b, c, alpha=2, beta=-3)


def test_whole_jobs_go_to_the_engine_that_ends_them_first(server, client):
    server.stop()
    server.restart()  # by what it has learnt of short products, one node may end all jobs first
    wait_for_nodes(server, NODES)
    # Slow, as BLAS has no integers: the first job goes on while the others are posted.
    a = client.put(make_matrix(1000, 1000, "int64", seed=1))

    def go_to_several():
        return len(find_nodes([client.submit(a, a) for _ in range(2 * NODES)]) - {None}) > 1

    assert_soon(server, go_to_several)


def test_a_plan_names_the_node_and_counts_all_rows(client):
    a, b = make_matrix(ROWS, 600, "int64", seed=1), make_matrix(600, 500, "int64", seed=2)
    status = client.submit(a, b).wait()
    assert status.plan["node"].keys() == {"id", "host"}
    # There is no GPU: the CPU computes all rows, in several blocks.
    assert status.plan["f"] == status.timings["f_actual"] == ROWS


def test_a_stored_b_stays_at_the_nodes_and_is_never_taken_for_another(server, client):
    a = make_matrix(600, 700, "int64", seed=1)

    def multiply(stored, expected):
        job = client.submit(a, stored)
        job.wait()
        assert np.array_equal(job.result(), expected)

    def is_kept(stored, expected):
        for _ in range(2):
            multiply(stored, expected)
        return any(stored.id in node["resident"] for node in list_nodes(server))

    for seed in (2, 3):
        b = make_matrix(700, 700, "int64", seed=seed)
        stored, expected = client.put(b), multiply_exactly(a, b)
        assert_soon(server, partial(is_kept, stored, expected))
    before = list_engines()
    for engine in before:  # the service is not told that B is gone with them
        os.kill(engine, signal.SIGKILL)
    wait_until(lambda: len(set(list_engines()) - set(before)) == NODES, 60)
    multiply(stored, expected)
    wait_for_nodes(server, NODES)


def kill_an_engine(rng):
    def kill():
        engines = list_engines()
        if engines:
            os.kill(rng.choice(engines), signal.SIGKILL)
        return bool(engines)

    wait_until(kill, 60)


def test_engines_killed_in_the_middle_cost_no_product(server, client):
    rng = random.Random(7)
    stop = threading.Event()
    operands = [make_matrix(n, n, "float32", seed=n) for n in (300, 900, 1300)]
    expected = [a @ a for a in operands]

    def multiply(index):
        count = 0
        with Client(server.url) as mine:
            while not stop.is_set():
                which = (index + count) % len(operands)
                product = mine.matmul(operands[which], operands[which])
                assert np.allclose(product, expected[which], rtol=1e-4, atol=1e-2)
                count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        counts = [pool.submit(multiply, index) for index in range(3)]
        try:
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.2, 2))
                kill_an_engine(rng)
        finally:
            stop.set()
        done = [count.result() for count in counts]
    assert sum(done) > 0
    wait_for_nodes(server, NODES)


def test_a_node_that_hangs_is_given_up_after_its_deadline(server, client):
    engines = list_engines()
    a, b = make_matrix(ROWS // 3, 600, "int64", seed=1), make_matrix(600, 500, "int64", seed=2)
    for engine in engines:
        os.kill(engine, signal.SIGSTOP)
    job = client.submit(a, b)
    assert np.array_equal(job.result(), multiply_exactly(a, b))
    wait_until(lambda: bool(set(engines) - set(list_engines())))
    for engine in set(engines) & set(list_engines()):  # they were asked for nothing
        os.kill(engine, signal.SIGCONT)
    wait_for_nodes(server, NODES)


def test_nodes_compute_on_after_a_product_was_cancelled(server, client):
    a = client.put(make_matrix(ROWS, 1000, "int64", seed=1))
    b = client.put(make_matrix(1000, 1000, "int64", seed=2))
    job = client.submit(a, b)
    wait_until(lambda: job.status().progress > 0)
    job.cancel()
    wait_until(lambda: job.status().state == "cancelled")
    again = client.submit(a, b)
    assert np.array_equal(again.result(), multiply_exactly(client.get(a), client.get(b)))


@contextmanager
def computing(client):
    """A product that was planned just now and takes a second: right, whatever the block does."""
    a, b = make_matrix(ROWS, 600, "int64", seed=1), make_matrix(600, 1000, "int64", seed=2)
    job = client.submit(a, b)
    wait_until(lambda: job.status().plan is not None)
    yield
    assert job.wait().state == "succeeded"
    assert np.array_equal(job.result(), multiply_exactly(a, b))


def test_a_node_that_leaves_in_the_middle_is_replaced(cluster, server, client, tmp_path):
    with computing(client):
        cluster.kill_last()
    wait_until(lambda: len(list_nodes(server)) == NODES - 1, 60)
    words = "node", "--address", cluster.address, "--store-bytes", "192MiB"
    with start_command(*words, folder=tmp_path, WAVETRIM_CPU_THREADS="1") as node:
        try:
            wait_for_nodes(server, NODES)
        finally:
            node.terminate()


def test_jobs_end_right_when_rays_head_is_killed(cluster, server, client):
    """The last test, as the cluster is none any more: the service goes on by itself."""
    a, b = make_matrix(ROWS, 600, "int64", seed=1), make_matrix(600, 500, "int64", seed=2)
    stored = client.put(a), client.put(b)
    jobs = [client.submit(*stored) for _ in range(4)]
    wait_until(lambda: any(job.status().progress > 0 for job in jobs))
    cluster.processes.pop(0).kill()
    for job in jobs:
        assert job.wait().state == "succeeded"
        assert np.array_equal(job.result(), multiply_exactly(a, b))
    wait_until(lambda: list_nodes(server) == [], 60)
    assert client.submit(*stored).wait().state == "succeeded"
