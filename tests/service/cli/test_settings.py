"""Settings: read from the environment, checked, described."""

import socket
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from tests.command import invoke_command
from wavetrim.scheduler.profile import what_if
from wavetrim.service.app import create_app
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.errors import SettingRefused
from wavetrim.service.machine_settings import MOST_THREADS, REMOVED
from wavetrim.service.settings import Settings


def test_the_environment_sets_fields_and_sizes_take_units(monkeypatch, tmp_path):
    monkeypatch.setenv("WAVETRIM_PORT", "9000")
    monkeypatch.setenv("WAVETRIM_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("WAVETRIM_MAX_MATRIX_BYTES", "4GiB")
    monkeypatch.setenv("WAVETRIM_API_KEY", "")
    monkeypatch.setenv("WAVETRIM_ARENA_BYTES", "0")
    settings = Settings()
    assert settings.port == 9000
    assert settings.max_matrix_bytes == 4 * 2**30
    assert settings.api_key is None
    assert settings.arena_bytes == 0
    assert settings.kernel_cache_dir == tmp_path / "kernels"
    assert settings.profile_dir == tmp_path / "profiles"
    assert settings.database == f"sqlite:///{tmp_path}/wavetrim.db"
    monkeypatch.chdir(tmp_path)
    relative = Settings(data_dir=Path("here"))
    monkeypatch.chdir("/")
    assert relative.data_dir == tmp_path / "here"


def test_the_api_key_is_in_no_message(monkeypatch):
    monkeypatch.setenv("WAVETRIM_API_KEY", "the-services-own-secret-key")
    assert "the-services-own-secret-key" not in repr(Settings())
    monkeypatch.setenv("WAVETRIM_PORT", "x")
    with pytest.raises(ValidationError) as refusal:
        Settings()
    assert "the-services-own-secret-key" not in str(refusal.value)


@pytest.mark.parametrize("key", ["k" * 15, "k" * 15 + "\n", " " + "k" * 20, "k" * 20 + "\x7f"])
def test_an_api_key_that_can_be_guessed_or_typed_wrong_is_refused(tmp_path, key):
    refused = invoke_command("serve", "--port", 0, folder=tmp_path, WAVETRIM_API_KEY=key)
    assert refused.exit_code == ExitCode.REFUSED
    for words in ("WAVETRIM_API_KEY", f"has {len(key)} characters", "at least 16"):
        assert words in refused.stderr
    assert key.strip() not in refused.stderr
    assert Settings(api_key=SecretStr("schlüssel-0123456")).api_key is not None


def test_an_api_key_is_read_from_a_file(monkeypatch, tmp_path):
    path = tmp_path / "key"
    path.write_text("the-services-own-secret-key\n")
    monkeypatch.setenv("WAVETRIM_API_KEY_FILE", str(path))
    key = Settings().api_key
    assert key is not None
    assert key.get_secret_value() == "the-services-own-secret-key"
    assert Settings().names_callers
    with pytest.raises(ValidationError, match="one must be left out"):
        Settings(api_key=SecretStr("k" * 20))
    for content, words in ((b"k" * 9, "has 9 characters"), (b"\xff" * 20, "it is no text")):
        path.write_bytes(content)
        refused = invoke_command(
            "serve", "--port", 0, folder=tmp_path, WAVETRIM_API_KEY_FILE=str(path)
        )
        assert refused.exit_code == ExitCode.REFUSED
        assert "WAVETRIM_API_KEY_FILE: " in refused.stderr
        assert words in refused.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_key(host):
    create_app(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", socket.gethostname()])
def test_other_addresses_need_a_key(host, monkeypatch):
    with pytest.raises(SettingRefused, match=r"host is .*WAVETRIM_API_KEY"):
        create_app(Settings(host=host))
    monkeypatch.setenv("WAVETRIM_API_KEY", "the-services-own-secret-key")
    create_app(Settings(host=host))


def test_a_refused_setting_is_told_with_its_value_and_its_limit(tmp_path):
    given = {"CPU_THREADS": "many", "API_KEY": "short", "DEVICES": "first", "ARENA_BYTES": "1XB"}
    told = invoke_command(
        "serve", folder=tmp_path, **{f"WAVETRIM_{name}": value for name, value in given.items()}
    )
    assert told.exit_code == ExitCode.REFUSED
    assert "WAVETRIM_ARENA_BYTES is '1XB'; it must be a size in bytes, such as" in told.stderr
    assert "WAVETRIM_DEVICES is 'first': String should match pattern '^(none|" in told.stderr
    assert "WAVETRIM_CPU_THREADS is 'many'; it must be a valid integer" in told.stderr
    assert "WAVETRIM_API_KEY: it has 5 characters; it must have" in told.stderr
    assert "short" not in told.stderr
    assert "KERNEL_CACHE_DIR" not in told.stderr


@pytest.mark.parametrize("variable", ["WAVETRIM_GRPC_PORT", "WAVETRIM_V2_SHARED_MEMORY"])
def test_a_removed_setting_that_opened_a_door_refuses_the_start(tmp_path, variable):
    refused = invoke_command("serve", "--port", 0, folder=tmp_path, **{variable: "8001"})
    assert refused.exit_code == ExitCode.REFUSED
    assert f"{variable} is '8001'; it must be left out" in refused.stderr
    assert "call /v2 over HTTP" in refused.stderr
    planned = invoke_command("plan", 9, 9, 9, folder=tmp_path, **{variable: "8001"})
    assert planned.exit_code == ExitCode.DONE


def test_settings_agree_with_each_other():
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        assert f"WAVETRIM_{name.upper()}" not in REMOVED
    assert MOST_THREADS == what_if.MOST_THREADS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", 8, 8, "x"), "'K': it is 'x'; it must be a valid integer"),
        (("serve", "--port", 99999), "'--port': it is '99999'; it must be less than or equal to"),
        (("serve", "--data-dir", ""), "'--data-dir': it is ''; it must be a path"),
    ],
)
def test_a_refused_option_is_told_with_its_value(arguments, message, tmp_path):
    told = invoke_command(*arguments, folder=tmp_path)
    assert told.exit_code == ExitCode.REFUSED
    assert message in " ".join(told.stderr.replace("│", " ").split())
