"""What a new user tries first and gets wrong, and what the commands say to it."""

import json
import os
import time

import numpy as np
import pytest

from tests.client.scripted_server import answer, serve_script
from tests.command import invoke_command, run_command, start_command
from tests.processes import run_python
from wavetrim.service.cli.exits import ExitCode

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def folder(tmp_path):
    """A folder with two matrices."""
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.eye(600))
    return tmp_path


def refuse(*arguments, folder):
    """The one line that a command says and ends with."""
    ended = invoke_command(*arguments, folder=folder)
    assert ended.exit_code == ExitCode.REFUSED, ended.stderr
    assert ended.stderr.startswith("wavetrim: ")
    assert ended.stderr.count("\n") == 1
    return str(ended.stderr)


def test_a_missing_key_is_told_with_what_gives_one(folder, start_server):
    server = start_server(api_key="sixteen-characters")
    said = refuse("status", "--url", server.url, folder=folder)
    assert "--api-key, WAVETRIM_API_KEY or WAVETRIM_API_KEY_FILE gives one" in said
    (folder / "key").write_text("sixteen-characters\n")
    found = {"WAVETRIM_URL": server.url, "WAVETRIM_API_KEY_FILE": "key"}
    assert invoke_command("matrices", folder=folder, **found).exit_code == ExitCode.DONE
    gone = invoke_command("matrices", folder=folder, **found | {"WAVETRIM_API_KEY_FILE": "none"})
    assert (gone.exit_code, "WAVETRIM_API_KEY_FILE: it is none" in gone.stderr) == (2, True)


@pytest.mark.parametrize("key", ["", "secret ", " secret", "secret\n", "secret\n\n"])
@pytest.mark.parametrize("name", ["--api-key", "WAVETRIM_API_KEY_FILE"])
def test_a_key_that_no_header_can_have_is_refused_and_not_shown(name, key, tmp_path):
    (tmp_path / "key").write_text(f"{key}\n")
    asked = ("status", name, key) if name == "--api-key" else ("status",)
    variables = {} if name == "--api-key" else {name: "key"}
    refused = invoke_command(*asked, folder=tmp_path, **variables)
    limit = "(not shown); it must have at least one, all of them printable, and no space"
    assert refused.exit_code == ExitCode.REFUSED
    named = name if name == "--api-key" else f"{name}:"
    assert refused.stderr.startswith(f"wavetrim: {named} has {len(key)} characters {limit}")
    assert "secret" not in refused.stderr


def test_a_port_in_use_is_told_with_what_to_do(folder, shared_server):
    ended = run_command("serve", folder=folder, WAVETRIM_PORT=str(shared_server.port))
    assert ended.returncode == ExitCode.FAILED
    assert ended.stderr == (
        f"wavetrim: cannot listen on 127.0.0.1 port {shared_server.port}: Address already in use; "
        "--port or WAVETRIM_PORT takes another one, or 0 for a free one\n"
    )


def test_a_host_of_another_machine_is_told_with_what_to_do(folder):
    key = {"WAVETRIM_API_KEY": "sixteen-characters"}
    ended = run_command("serve", "--host", "192.0.2.1", folder=folder, **key)
    assert ended.returncode == ExitCode.FAILED
    assert "; --host or WAVETRIM_HOST takes an address of this machine, or 0.0" in ended.stderr


def test_a_service_that_is_not_there_is_told_with_what_starts_it(folder):
    for command in (
        *(["status"], ["submit", "a.npy", "b.npy"], ["submit", "1234", "5678"], ["devices"]),
        *(["demo"], ["matrices"], ["rm", "1234"], ["cancel", "1234"], ["download", "1234"]),
        ["fetch", "1234", "-o", "c.npy"],
    ):
        ended = invoke_command(*command, "--url", NOBODY, folder=folder)
        assert ended.exit_code == ExitCode.UNREACHABLE
        assert ended.stderr.endswith(
            f"the service at {NOBODY} does not answer: Connection refused; `wavetrim serve` starts "
            "one, --url or WAVETRIM_URL names another\n"
        )
    asked = invoke_command("health", folder=folder, WAVETRIM_PORT="1")
    assert asked.stderr.endswith("Connection refused; `wavetrim serve` starts it\n")


def test_https_on_a_port_of_http_is_named(folder, shared_server):
    url = shared_server.url.replace("http:", "https:")
    ended = invoke_command("status", "--url", url, folder=folder)
    assert ended.exit_code == ExitCode.UNREACHABLE
    assert "it speaks no TLS; an address with http:// may be right" in ended.stderr


def test_another_program_on_the_port_is_named(folder):
    with serve_script([answer(b"<!DOCTYPE HTML>", 404)]) as url:
        told = invoke_command("status", "--url", url, folder=folder)
    assert told.exit_code == ExitCode.REFUSED
    assert told.stderr.endswith("the answer is a web page: of a proxy, or of another program\n")


def test_an_id_of_the_other_kind_is_named(folder, shared_server):
    at = ("--url", shared_server.url)
    matrix = invoke_command("upload", "a.npy", *at, folder=folder).stdout.strip()
    job = invoke_command("submit", matrix, "b.npy", "--wait", *at, folder=folder).stdout.strip()
    shown = invoke_command("status", job, "--json", *at, folder=folder).stdout
    result = json.loads(shown)["result"]
    for given in (matrix, matrix[:8]):
        for command in (["status", given], ["fetch", given, "-o", "c.npy"], ["cancel", given]):
            said = refuse(*command, *at, folder=folder)
            assert f"{given} is a matrix, not a job: `wavetrim download {matrix}`" in said
    for given in (job, job[:8]):
        for command in (["download", given], ["rm", given], ["submit", given, "b.npy"]):
            said = refuse(*command, *at, folder=folder)
            assert f"{given} is a job, not a matrix: its result is matrix {result}" in said
    for command, lists in (("status", "jobs"), ("download", "matrices")):
        said = refuse(command, "nothing", *at, folder=folder)
        assert said.endswith(f"'nothing'; `wavetrim {lists}` lists them\n")


@pytest.mark.parametrize(
    ("command", "option"), [(["calibrate"], "--profile-dir"), (["probe", "cpu-rows"], "--out")]
)
def test_a_folder_that_cannot_be_written_is_told_before_measuring(command, option, folder):
    said = refuse(*command, option, "a.npy/below", folder=folder)
    assert said.startswith(f"wavetrim: {option} is '")
    assert "a.npy/below'; it must be a folder that can be written to (Not a directory)" in said


def test_an_output_into_nowhere_is_told_before_anything_is_asked_for(folder):
    unreachable = ("--url", NOBODY)
    for command in (
        ["multiply", "a.npy", "b.npy"],
        ["fetch", "0b8d3a6f", *unreachable],
        ["download", "0b8d3a6f", *unreachable],
    ):
        said = refuse(*command, "-o", "nowhere/c.npy", folder=folder)
        assert "--output is 'nowhere/c.npy'; it must be in a folder that exists" in said


def test_multiply_and_plan_leave_the_product_and_what_a_first_run_says_that_it_compiles(folder):
    before = {*folder.iterdir()}
    home = {"HOME": str(folder / "home"), "XDG_CACHE_HOME": "", "WAVETRIM_KERNEL_CACHE_DIR": ""}
    multiply = ("multiply", "a.npy", "b.npy", "-o", "c.npy")
    first, again = (run_command(*multiply, folder=folder, **home) for _ in range(2))
    planned = run_command("plan", 64, 64, 64, "--device", "H100", folder=folder, **home)
    assert (first.returncode, again.returncode, planned.returncode) == (0, 0, 0)
    assert {*folder.iterdir()} - before == {folder / "c.npy", folder / "home"}
    cache = folder / "home" / ".cache" / "wavetrim"
    assert first.stderr.startswith(f"compiling the C of cpu into {cache}, once\n")
    assert "compiling" not in again.stderr
    assert [*cache.iterdir()]


@pytest.mark.parametrize("command", [["calibrate"], ["probe", "cpu-rows"]])
def test_ctrl_c_ends_what_measures_and_keeps_nothing(command, folder):
    option = "--out" if command[0] == "probe" else "--profile-dir"
    with start_command(*command, option, "out", folder=folder) as process:
        process.wait_until((folder / "out").exists)
        time.sleep(0.3)
        process.interrupt()
    assert list((folder / "out").iterdir()) == []


def test_ctrl_c_ends_a_command_that_is_still_being_imported(folder):
    code = """
import importlib.abc, os, signal, sys
class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
from wavetrim.service.cli.start import main
sys.meta_path.insert(0, Interrupts())
main()
"""
    ended = run_python(code, folder=folder)
    assert (ended.returncode, ended.stderr) == (ExitCode.INTERRUPTED, "wavetrim: interrupted\n")


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    np.savez(tmp_path / "zip", np.eye(3))
    (tmp_path / "text").write_text("1,2\n3,4\n")
    (tmp_path / "empty").touch()
    np.save(tmp_path / "swapped.npy", np.eye(3, dtype=">f8"))
    whole = (tmp_path / "a.npy").read_bytes()
    for name, content in (("short", whole[:-1]), ("long", whole + b"?"), ("head", whole[:40])):
        (tmp_path / f"{name}.npy").write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zip.npz", "format is 'zip'; it must be .npy, as numpy.save writes it"),
        ("text", "format is 'text'; it must be .npy, as numpy.save writes it"),
        ("empty", "header is 'empty'; it must be a whole .npy header"),
        ("short.npy", "short.npy: length is 199; it must be 200 bytes"),
        ("long.npy", "long.npy: length is 201; it must be 200 bytes"),
        ("head.npy", "header is '40 bytes long'; it must be a whole .npy header"),
        ("swapped.npy", "this is big-endian float64"),
        ("pipe", "pipe is 'a pipe'; it must be a regular file"),
        ("/dev/null", "/dev/null is 'a device'; it must be a regular file"),
    ],
)
def test_a_file_of_another_kind_is_named_by_every_command(files, name, message):
    commands = (
        ("multiply", name, "a.npy", "-o", "c.npy"),
        ("multiply", "a.npy", "a.npy", "--c", name, "--beta", "1", "-o", "c.npy"),
        ("upload", name, "--url", NOBODY),
        ("submit", "a.npy", name, "--url", NOBODY),
    )
    for command in commands:
        told = invoke_command(*command, folder=files)
        assert told.exit_code == ExitCode.REFUSED, told.output
        assert message in told.stderr.replace("\n", " ")
    assert not (files / "c.npy").exists()


def test_the_client_names_a_pipe_and_does_not_wait_for_it(files, connect):
    with pytest.raises(ValueError, match="pipe is 'a pipe'; it must be a regular file"):
        connect(NOBODY).put(files / "pipe")
