"""The example at the end of each command's help works as it is printed."""

import pytest

from tests.command import invoke_command, start_command
from tests.stage import Stage, check_shell, make_programs
from wavetrim.service.cli.main import COMMANDS, load_command

HEAD = "[bold]Example[/]\n\n"

ELSEWHERE = ("calibrate", "node", "reproduce")
"""They take long, a cluster or a GPU: checked for their form only."""

FOLDERS = ("adopt", "keys")
"""They change a data folder: one of their own."""


def read_example(command, below=None):
    """The example of a command, or of one below it."""
    loaded = load_command(command)
    epilog = (loaded if below is None else loaded.commands[below]).epilog
    assert epilog.startswith(HEAD)
    return str(epilog.removeprefix(HEAD))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_the_line_of_the_list_and_describes_each_option(command):
    loaded = load_command(command)
    assert loaded.help.partition("\n\n")[0] == COMMANDS[command][1]
    for each in getattr(loaded, "commands", {command: loaded}).values():
        assert [one.name for one in each.params if not one.help] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_prints_the_example_as_it_is_typed(command, tmp_path):
    helped = invoke_command(command, "--help", folder=tmp_path, COLUMNS="80")
    lines = read_example(command).splitlines()
    printed = [line.strip() for line in helped.stdout.splitlines()]
    assert lines == [line for line in printed if line in lines]
    assert any(line.startswith(f"wavetrim {command}") for line in lines)


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {*ELSEWHERE, "serve"}))
def test_an_example_runs(command, tmp_path, shared_server):
    make_programs(tmp_path)
    exports = f"export WAVETRIM_PORT={shared_server.port}\n"
    if command in FOLDERS:
        exports += "export WAVETRIM_DATA_DIR=own\n"
    Stage(tmp_path, shared_server).run_shell(exports + read_example(command))


@pytest.mark.parametrize("command", load_command("keys").commands)
def test_an_example_about_keys_runs(command, tmp_path, shared_server):
    make_programs(tmp_path)
    example = "export WAVETRIM_DATA_DIR=own\n" + read_example("keys", command)
    Stage(tmp_path, shared_server).run_shell(example)


def test_the_example_of_serve_runs(tmp_path):
    words = read_example("serve").split()
    with start_command(*words[1:], folder=tmp_path, WAVETRIM_PORT="0") as process:
        try:
            assert process.stdout.readline().startswith("wavetrim is serving on http://127.0.0.1:")
        finally:
            process.kill()


@pytest.mark.parametrize("command", ELSEWHERE)
def test_an_example_that_runs_elsewhere_is_a_valid_command(command):
    check_shell(read_example(command))
