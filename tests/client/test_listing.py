"""The matrices that a service keeps, page by page."""

import json
from pathlib import Path
from typing import Any

from tests.command import invoke_command
from tests.matrices import make_matrix
from tests.server import RunningServer
from wavetrim.client import Client


def test_all_matrices_are_listed_newest_first(client: Any) -> None:
    stored = [client.put(make_matrix(3, 4, "int8", seed)) for seed in range(5)]
    listed = list(client.matrices())
    assert [matrix.id for matrix in listed[:5]] == [matrix.id for matrix in reversed(stored)]
    assert (listed[0].shape, listed[0].dtype) == ((3, 4), "int8")
    client.delete(stored[0])
    assert stored[0].id not in {matrix.id for matrix in client.matrices()}


def test_more_matrices_than_a_page_are_listed(server: RunningServer) -> None:
    with Client(server.url) as client:
        array = make_matrix(1, 1, "int8", 0)
        stored = {client.put(array).id for _ in range(120)}
        listed = [matrix.id for matrix in client.matrices()]
    assert len(listed) == len(set(listed))
    assert stored <= set(listed)


def test_the_command_lists_them(server: RunningServer, tmp_path: Path) -> None:
    with Client(server.url) as client:
        matrix = client.put(make_matrix(300, 200, "float32", 1))
    shown = invoke_command("matrices", folder=tmp_path, WAVETRIM_URL=server.url)
    assert shown.exit_code == 0, shown.stderr
    (line,) = [line for line in shown.stdout.splitlines() if matrix.id in line]
    assert "300x200" in line
    assert "float32" in line
    assert "234 KiB" in line
    assert max(map(len, shown.stdout.splitlines())) <= 80
    printed = invoke_command("matrices", "--json", folder=tmp_path, WAVETRIM_URL=server.url)
    assert json.loads(printed.stdout)[0]["id"] == matrix.id
