"""Files that commands are given and that are no .npy files: refused by what they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.command import invoke_command
from wavetrim.service.cli.exits import ExitCode

NOBODY = "http://127.0.0.1:1"


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
def test_a_file_of_another_kind_is_named_by_every_command(
    files: Path, name: str, message: str
) -> None:
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
