"""docs/v2.md: its code runs against a real service and finds the products that it claims."""

import os
import re
import subprocess
from pathlib import Path

from tests.environment import ROOT
from tests.server import Start, find_free_port
from wavetrim.service.api.v2.datatypes import MOST_JSON_ELEMENTS
from wavetrim.service.api.v2.stack import MOST_PRODUCTS
from wavetrim.service.grpc.conversion import MOST_TYPED_ELEMENTS

PAGE = (ROOT / "docs/v2.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_runs(start_server: Start, tmp_path: Path) -> None:
    port, prefix = find_free_port(), f"/wavetrim-test-{os.getpid()}-d"
    server = start_server(grpc_port=port, v2_shared_memory=prefix)
    server.wait_ready()
    address = server.url.removeprefix("http://")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "sh", "python", "python", "python"]
    names: dict[str, object] = {}
    for kind, text in blocks:
        code = text.replace("localhost:8000", address).replace(
            "localhost:8001", f"localhost:{port}"
        )
        code = code.replace("/mine-", f"{prefix}-")
        if kind == "python":
            exec(code, names)
        else:
            done = subprocess.run(code, shell=True, capture_output=True, text=True, check=True)
            assert '"data":[11.0]' in done.stdout


def test_limits_are_those_of_the_code() -> None:
    for limit in (MOST_PRODUCTS, MOST_JSON_ELEMENTS, MOST_TYPED_ELEMENTS):
        assert f"{limit:,}" in PAGE
