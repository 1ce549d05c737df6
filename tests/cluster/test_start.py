"""`wavetrim node`: what keeps a machine from becoming a node, told before Ray is started.

The variables of a node's engine mean what they mean to a service. Then where products go.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command import expect_refused, start_command
from wavetrim.scheduler.cluster.node_operands import STORE_SHARE, cut_rows
from wavetrim.scheduler.cluster.start import (
    LEAST_STORE_BYTES,
    OPTIONS_VARIABLE,
    NodeRefused,
    check_token,
    make_command,
    make_environment,
)
from wavetrim.scheduler.engine.answer import merge_successes
from wavetrim.scheduler.options import MachineOptions
from wavetrim.scheduler.planning.placing import Network


def test_there_is_no_node_without_a_token(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NodeRefused, match="RAY_AUTH_TOKEN is None; it must be set"):
        check_token({})
    check_token({"RAY_AUTH_TOKEN": "x" * 32})
    kept = tmp_path / "token"
    with pytest.raises(NodeRefused):
        check_token({"RAY_AUTH_TOKEN_PATH": str(kept)})
    kept.write_text("x" * 32)
    check_token({"RAY_AUTH_TOKEN_PATH": str(kept)})


def test_the_head_has_no_engine_and_no_dashboard():
    asked = {"port": 6379, "host": "10.0.0.1", "threads": 8, "store_bytes": LEAST_STORE_BYTES}
    head = make_command(address=None, **asked)
    assert head[head.index("--num-cpus") + 1] == "0"
    assert head[head.index("--include-dashboard") + 1] == "false"
    assert "--resources" not in head
    node = make_command(address="10.0.0.1:6379", **asked)
    assert node[node.index("--num-cpus") + 1] == "8"
    assert node[node.index("--resources") + 1] == '{"wavetrim": 1}'
    found = make_environment({"A": "b"}, MachineOptions(Path("/kernels")), code=Path("/code"))
    assert found["RAY_AUTH_MODE"] == "token"
    assert (found["A"], found["PYTHONPATH"]) == ("b", "/code")


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("GPU_MEMORY_BYTES", "4 apples", "it must be a size in bytes, such as 4GiB"),
        ("CPU_THREADS", "two", "it must be a valid integer"),
        ("STALL_SECONDS", "-1", "it must be a number of seconds greater than 0"),
        ("DEVICES", "first", "pattern"),
    ],
)
def test_a_bad_option_is_refused_before_ray_is_started(tmp_path, name, text, limit):
    variables = {"RAY_AUTH_TOKEN": "x" * 32, f"WAVETRIM_{name}": text}
    told = expect_refused("node", "--head", folder=tmp_path, says=limit, **variables)
    assert f"WAVETRIM_{name}" in told


@pytest.mark.parametrize("command", [("node", "--head"), ("serve",)])
def test_the_commands_say_that_the_token_is_missing(tmp_path, command):
    variables = {"HOME": str(tmp_path), "WAVETRIM_RAY_ADDRESS": "a:1"}
    expect_refused(*command, folder=tmp_path, says="RAY_AUTH_TOKEN", **variables)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "either --head or --address"),
        (("--head", "--calibrate"), "the head computes nothing"),
        (("--head", "--host", "203.0.113.9"), "--host is '203.0.113.9'; it must be an address of"),
        *((("--head", "--port", port), f"--port is {port}; it must be none of Ray's own")
          for port in (8265, 10001, 18379, 52365)),
        *((("--address", address), f"--address: it is '{address}'; it must be HOST:PORT")
          for address in ("127.0.0.1", "::1:5", "ray://127.0.0.1:5", "127.0.0.1:99999", "a:0")),
        (("--head", "--store-bytes", "many"), "--store-bytes is 'many'; it must be a size such as"),
        (("--head", "--store-bytes", "1MiB"), "store_bytes is 1048576; it must be at least"),
        (("--head", "--store-bytes", "1EiB"), f"store_bytes is {2**60}; it must be at least"),
    ],
)  # fmt: skip
def test_what_ray_would_answer_with_a_traceback_is_told_in_a_line(tmp_path, options, words):
    variables = {"RAY_AUTH_TOKEN": "x" * 32}
    told = expect_refused("node", *options, folder=tmp_path, says=words, **variables)
    assert len(told.splitlines()) == 1


def test_a_service_asks_for_an_address_with_a_port_that_exists(tmp_path):
    words = "WAVETRIM_RAY_ADDRESS: it is '127.0.0.1:99999'; it must be HOST:PORT"
    expect_refused("serve", folder=tmp_path, says=words, WAVETRIM_RAY_ADDRESS="127.0.0.1:99999")


def test_every_option_reaches_the_engine_of_a_node():
    given = MachineOptions(Path("/kernels"), Path("/profiles"), "0,2", 3, 2048, None, 9.0)
    found = make_environment(
        {"WAVETRIM_STALL_SECONDS": "9"}, replace(given, stall_seconds=60), code=Path("/code")
    )
    assert MachineOptions.read(found[OPTIONS_VARIABLE]) == given


@pytest.mark.slow
def test_a_machine_is_measured_once_before_it_joins(tmp_path):
    """There is no head at the address, so Ray's own command is ended when it has begun."""

    def join():
        with start_command(
            "node", "--address", "127.0.0.1:9", "--calibrate", folder=tmp_path,
            RAY_AUTH_TOKEN="x" * 32, WAVETRIM_CPU_THREADS="1", PYTHONUNBUFFERED="1",
        ) as process:  # fmt: skip
            said = []
            for line in process.stdout:
                said.append(line)
                if "Local node IP" in line:
                    break
            process.kill()
        return "".join(said)

    assert "stored in" in join()
    assert len(list((tmp_path / "wavetrim-data" / "profiles").iterdir())) == 1
    assert "stored in" not in join()


SIZES = st.integers(1, 10**6)


@given(rows=st.integers(1, 5000), row_bytes=SIZES, store=SIZES, seconds=st.floats(0, 100))
def test_blocks_cover_all_rows_and_none_is_larger_than_its_part_of_the_store(
    rows, row_bytes, store, seconds
):
    for blocks in (
        cut_rows(rows, row_bytes, store_bytes=store, seconds=seconds),
        cut_rows(rows, row_bytes, store_bytes=store),
    ):
        assert blocks[0].start == 0
        assert blocks[-1].stop == rows
        assert all(a.stop == b.start for a, b in pairwise(blocks))
        most_rows = max(1, -(-max(row_bytes, store // STORE_SHARE) // row_bytes))
        assert max(map(len, blocks)) <= most_rows


def test_a_node_pays_for_the_network():
    traffic = {"b_bytes": 10**8, "in_bytes": 2 * 10**8, "out_bytes": 10**8}
    network = Network(1.0, 1e8, 1e7)
    seconds = {computing: network.find_seconds(computing, **traffic) for computing in (0.5, 60.0)}
    assert seconds == {0.5: 1 + 1 + 10, 60.0: 1 + 1 + 60}  # copies are hidden, or computing is


def test_blocks_are_one_answer():
    def event(rows, **verification):
        checked = {
            "passed": True, "max_error": rows / 10, "tolerance": 1.0, "elements_checked": rows,
            "elements_compared": 1, "detectable_change": rows, "caught_probability": 1 / rows,
            "wrong_rows": 0, "recomputed_on": None, "seconds": 0.5, **verification,
        }  # fmt: skip
        return {
            "type": "succeeded",
            "plan": {"f": rows, "kernel": None, "predicted": {"total_seconds": 1.0}},
            "timings": {"cpu_seconds": 2.0, "kernel_seconds": None, "f_actual": rows},
            "verification": checked,
        }

    merged = merge_successes([event(1), event(2, recomputed_on="cpu", wrong_rows=1)], seconds=9.0)
    assert merged["plan"] == {"f": 3, "kernel": None, "predicted": {"total_seconds": 2.0}}
    assert merged["timings"]["cpu_seconds"] == 4.0
    assert (merged["timings"]["f_actual"], merged["timings"]["total_seconds"]) == (3, 9.0)
    found = merged["verification"]
    assert (found["max_error"], found["elements_checked"], found["wrong_rows"]) == (0.2, 3, 1)
    assert (found["caught_probability"], found["recomputed_on"]) == (0.5, "cpu")
