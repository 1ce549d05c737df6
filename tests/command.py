"""The command line `wavetrim`, in a process of its own or in this one."""

import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile

from typer.testing import CliRunner

from tests.changed_program import name_program
from tests.environment import SHARED_SETTINGS, clear_environment
from tests.limit import allow
from tests.preloaded import ForkedProcess
from tests.processes import wait_until
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.cli.main import app


def make_environment(**variables):
    """This process's environment for a command: without a GPU, with these variables."""
    return {**clear_environment(), **list_quick_settings(), **variables}


def list_quick_settings():
    """Variables that make commands start fast: no GPU, C compiled before."""
    names = ("devices", "kernel_cache_dir")
    return {f"WAVETRIM_{name.upper()}": str(SHARED_SETTINGS[name]) for name in names}


def invoke_command(*arguments, folder, **variables):
    """Run a command in this process, which is faster; for commands that end at once."""
    hidden = {name: None for name in os.environ if name.startswith("WAVETRIM_")}
    with contextlib.chdir(folder):
        return CliRunner().invoke(
            app, [*map(str, arguments)], env={**hidden, **list_quick_settings(), **variables}
        )


def call_service(server, folder, *arguments):
    """Run a command about a service, as `invoke_command` does."""
    return invoke_command(*arguments, folder=folder, WAVETRIM_URL=server.url)


def run_command(*arguments, folder, **variables):
    """Run a command in a folder until it ends.

    It is forked, which is faster, unless it has variables that the interpreter reads at its start.
    """
    words = [*map(str, arguments)]
    environment = make_environment(**variables)
    with TemporaryFile() as output, TemporaryFile() as errors:
        if any(name.startswith("PYTHON") for name in variables):
            process = subprocess.Popen(
                [sys.executable, "-m", "wavetrim", *words], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            )  # fmt: skip
        else:
            process = ForkedProcess(
                name_program(environment), words, folder=folder, environment=environment,
                output=output.fileno(), errors=errors.fileno(),
            )  # fmt: skip
        try:
            status = process.wait(allow(120))
        finally:
            process.kill()
        written = [file.seek(0) or file.read().decode() for file in (output, errors)]
    return subprocess.CompletedProcess(words, status, *written)


def expect_refused(*arguments, folder, says="", status=ExitCode.REFUSED, **variables):
    """Assert that a command ends with this status, and says this at last; returns all it says."""
    ended = run_command(*arguments, folder=folder, **variables)
    assert ended.returncode == status, ended.stderr
    assert "Traceback" not in ended.stderr
    assert says in ended.stderr.splitlines()[-1]
    return ended.stderr


class StartedCommand(ForkedProcess):
    """A running command, used like a `subprocess.Popen` of text with its output in pipes."""

    def __init__(self, words, folder, environment):
        (output, output_end), (errors, errors_end) = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(output), os.fdopen(errors)
        with os.fdopen(output_end, "wb"), os.fdopen(errors_end, "wb"):
            super().__init__(
                name_program(environment), words, folder=folder, environment=environment,
                output=output_end, errors=errors_end,
            )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stdout.close()
        self.stderr.close()
        self.wait()

    def wait_until(self, condition):
        """Wait until something is so, while the command runs."""
        wait_until(lambda: self.poll() is not None or condition(), seconds=30)
        assert self.poll() is None, self.communicate()

    def interrupt(self, number=signal.SIGINT):
        """End it by a signal, which it tells in its last line; returns its output and errors."""
        self.send_signal(number)
        output, errors = self.communicate(timeout=allow(30))
        assert self.returncode == ExitCode.INTERRUPTED, errors
        assert errors.endswith("wavetrim: interrupted\n")
        assert "Traceback" not in output + errors
        return output, errors

    def communicate(self, timeout=None):
        with ThreadPoolExecutor(2) as pool:
            output, errors = pool.map(lambda file: file.read(), (self.stdout, self.stderr))
        self.wait(timeout)
        return output, errors


def start_command(*arguments, folder, **variables):
    return StartedCommand([*map(str, arguments)], folder, make_environment(**variables))
