"""Settings: read from the environment, checked, described."""

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from tests.command import invoke_command
from tests.server import RunningServer
from wavetrim.scheduler.profile import what_if
from wavetrim.service.app import create_app
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.descriptors import limit_connections
from wavetrim.service.errors import SettingRefused
from wavetrim.service.machine_settings import MOST_THREADS
from wavetrim.service.removed_settings import REMOVED
from wavetrim.service.setting_refusal import tell_refused
from wavetrim.service.settings import Settings
from wavetrim.service.storage.folder.data_folder import claim_folder

KEY = "the-services-own-secret-key"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A service whose key is in a file."""
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "key").write_text(f"{KEY}\n")
    with RunningServer(folder / "data", api_key_file=folder / "key") as running:
        yield running


def test_every_setting_is_described() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_the_environment_sets_fields_and_sizes_take_units(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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


def test_relative_folders_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(data_dir=Path("here"))
    monkeypatch.chdir("/")
    assert settings.data_dir == tmp_path / "here"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 70000),
        ("max_matrix_bytes", 0),
        ("max_storage_bytes", "-1"),
        ("arena_bytes", "-1"),
        ("max_queued_jobs", 0),
        ("max_connections", 0),
        ("cpu_threads", 0),
        ("cpu_threads", 4097),
        ("devices", "first"),
        ("job_timeout_seconds", 0),
        ("drain_seconds", -1),
        ("log_level", "loud"),
    ],
)
def test_values_out_of_range_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setenv(f"WAVETRIM_{name.upper()}", str(value))
    with pytest.raises(ValidationError, match=name):
        Settings()


def test_the_api_key_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVETRIM_API_KEY", "the-services-own-secret-key")
    assert "the-services-own-secret-key" not in repr(Settings())
    monkeypatch.setenv("WAVETRIM_PORT", "x")
    with pytest.raises(ValidationError) as refusal:
        Settings()
    assert "the-services-own-secret-key" not in str(refusal.value)


@pytest.mark.parametrize("key", ["k" * 15, "k" * 15 + "\n", " " + "k" * 20, "k" * 20 + "\x7f"])
def test_an_api_key_that_can_be_guessed_or_typed_wrong_is_refused(tmp_path: Path, key: str) -> None:
    refused = invoke_command("serve", "--port", 0, folder=tmp_path, WAVETRIM_API_KEY=key)
    assert refused.exit_code == ExitCode.REFUSED
    for words in ("WAVETRIM_API_KEY", f"has {len(key)} characters", "at least 16"):
        assert words in refused.stderr
    assert key.strip() not in refused.stderr
    assert Settings(api_key=SecretStr("schlüssel-0123456")).api_key is not None


def test_an_api_key_is_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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


def test_commands_find_the_key_in_the_file_too(tmp_path: Path, server: RunningServer) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    asked = {"WAVETRIM_URL": server.url}
    refused = invoke_command("matrices", folder=tmp_path, **asked)
    assert refused.exit_code != ExitCode.DONE
    told = invoke_command("matrices", folder=tmp_path, WAVETRIM_API_KEY_FILE=str(path), **asked)
    assert told.exit_code == ExitCode.DONE, told.output
    gone = invoke_command("matrices", folder=tmp_path, WAVETRIM_API_KEY_FILE="none", **asked)
    assert (gone.exit_code, "WAVETRIM_API_KEY_FILE: it is none" in gone.stderr) == (2, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_key(host: str) -> None:
    create_app(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", socket.gethostname()])
def test_other_addresses_need_a_key(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingRefused, match=r"host is .*WAVETRIM_API_KEY"):
        create_app(Settings(host=host))
    monkeypatch.setenv("WAVETRIM_API_KEY", "the-services-own-secret-key")
    create_app(Settings(host=host))


def test_a_data_folder_belongs_to_one_service(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    with (
        claim_folder(folder),
        pytest.raises(SettingRefused, match=f"uses, as process {os.getpid()} on .* since 20"),
        claim_folder(folder),
    ):
        pass
    with claim_folder(folder):
        assert folder.is_dir()


def test_a_data_folder_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with (
        pytest.raises(SettingRefused, match=r"data_dir is .*a folder that can be written to"),
        claim_folder(tmp_path / "file"),
    ):
        pass


def test_connections_leave_descriptors_for_everything_else() -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = limit_connections(None)
    assert possible <= most * 3 / 4
    assert limit_connections(possible) == possible
    with pytest.raises(SettingRefused, match=rf"at most {possible}: the process may open {most} "):
        limit_connections(possible + 1)


def test_a_refused_setting_is_told_with_its_value_and_its_limit(
    tmp_path: Path,
) -> None:
    told = invoke_command(
        "serve", folder=tmp_path, WAVETRIM_CPU_THREADS="many", WAVETRIM_API_KEY="short"
    )
    assert told.exit_code == ExitCode.REFUSED
    assert "WAVETRIM_CPU_THREADS is 'many'; it must be a valid integer" in told.stderr
    assert "WAVETRIM_API_KEY: it has 5 characters; it must have" in told.stderr
    assert "short" not in told.stderr
    assert "KERNEL_CACHE_DIR" not in told.stderr


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("devices", "first", ": String should match pattern '^(none|"),
        ("arena_bytes", "1XB", "; it must be a size in bytes, such as 4GiB"),
        ("max_matrix_bytes", "-1", "; it must be a size in bytes, such as 4GiB"),
    ],
)
def test_a_refused_setting_is_told_in_whole_sentences(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    variable = f"WAVETRIM_{name.upper()}"
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError) as refused:
        Settings()
    (sentence,) = tell_refused(refused.value)
    assert sentence.startswith(f"{variable} is {value!r}{told}")


@pytest.mark.parametrize("variable", ["WAVETRIM_GRPC_PORT", "WAVETRIM_V2_SHARED_MEMORY"])
def test_a_removed_setting_that_opened_a_door_refuses_the_start(
    tmp_path: Path, variable: str
) -> None:
    refused = invoke_command("serve", "--port", 0, folder=tmp_path, **{variable: "8001"})
    assert refused.exit_code == ExitCode.REFUSED
    assert f"{variable} is '8001'; it must be left out" in refused.stderr
    assert "call /v2 over HTTP" in refused.stderr
    planned = invoke_command("plan", 9, 9, 9, folder=tmp_path, **{variable: "8001"})
    assert planned.exit_code == ExitCode.DONE


def test_no_setting_is_removed_and_there() -> None:
    assert not {f"WAVETRIM_{name.upper()}" for name in Settings.model_fields} & set(REMOVED)


def test_as_many_threads_may_be_set_as_plans_take() -> None:
    assert MOST_THREADS == what_if.MOST_THREADS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", 8, 8, "x"), "'K': it is 'x'; it must be a valid integer"),
        (("serve", "--port", 99999), "'--port': it is '99999'; it must be less than or equal to"),
        (("serve", "--data-dir", ""), "'--data-dir': it is ''; it must be a path"),
    ],
)
def test_a_refused_option_is_told_with_its_value(
    arguments: tuple[str], message: str, tmp_path: Path
) -> None:
    told = invoke_command(*arguments, folder=tmp_path)
    assert told.exit_code == ExitCode.REFUSED
    assert message in " ".join(told.stderr.replace("│", " ").split())
