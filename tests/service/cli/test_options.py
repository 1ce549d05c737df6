"""Options that several commands share: the API key."""

from pathlib import Path

import pytest

from tests.command import invoke_command
from wavetrim.service.cli.exits import ExitCode

KEYS = ["", "secret ", " secret", "secret\n", "secret\n\n"]
LIMIT = "(not shown); it must have at least one, all of them printable, and no space or line end"


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_no_header_can_have_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    refused = invoke_command("status", "--api-key", key, folder=tmp_path)
    assert refused.exit_code == ExitCode.REFUSED
    assert refused.stderr.startswith(f"wavetrim: --api-key has {len(key)} characters {LIMIT}")
    assert "secret" not in refused.stderr


@pytest.mark.parametrize("key", KEYS)
def test_such_a_key_in_a_file_is_blamed_on_the_file(tmp_path: Path, key: str) -> None:
    (tmp_path / "key").write_text(f"{key}\n")
    refused = invoke_command("status", folder=tmp_path, WAVETRIM_API_KEY_FILE="key")
    assert refused.exit_code == ExitCode.REFUSED
    named = f"wavetrim: WAVETRIM_API_KEY_FILE has {len(key)} characters {LIMIT}"
    assert refused.stderr.startswith(named)
    assert "secret" not in refused.stderr
