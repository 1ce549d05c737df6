"""How a command ends: its exit codes, the errors and their messages, and the signals that end it.

Ctrl-C, SIGTERM and a closed terminal end it. Under `nohup` a closed terminal does not: SIGHUP is
ignored there, and stays so.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from enum import IntEnum
from types import FrameType
from typing import Final

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ExitCode(IntEnum):
    """Exit code of every command."""

    DONE = 0, "done"
    FAILED = 1, "failed: a file, a device or the machine"
    REFUSED = 2, "refused: an option, a file or a request that cannot be met"
    WRONG = 3, "the product is wrong: verification failed"
    UNREACHABLE = 4, "the service does not answer, is full or is stopping: try again"
    JOB_FAILED = 5, "the job failed or was cancelled"
    INTERRUPTED = 130, "interrupted by Ctrl-C or SIGTERM; no partial output is left"

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "ExitCode":
        """A code with its meaning, in words."""
        made = int.__new__(cls, code)
        made._value_, made.meaning = code, meaning
        return made


class CommandFailed(Exception):
    """Ends the command with a message and an exit code.

    Attributes:
        code: The exit code.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class CommandRefused(CommandFailed):
    """Ends the command because of an option, a file or a setting, which the message names."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.REFUSED)


def explain_failure(error: BaseException) -> CommandFailed | None:
    """The message and exit code of an error; None for an unexpected error."""
    if isinstance(error, CommandFailed):
        return error
    code = ExitCode.INTERRUPTED if isinstance(error, KeyboardInterrupt) else _find_code(error)
    if code is None:
        return None
    if code is ExitCode.INTERRUPTED:
        return CommandFailed("interrupted", code)
    message = str(error) or type(error).__name__
    if (original := getattr(error, "orig", None)) is not None:
        # A database's error; its own words have the statement and its values.
        message = str(original).strip().partition("\n")[0]
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    return CommandFailed(message + _tell_way_out(error), code)


def _find_code(error: BaseException) -> ExitCode | None:
    from sqlalchemy.exc import DBAPIError  # help is quicker without these

    from wavetrim import client
    from wavetrim.kernels.errors import UnknownKernel
    from wavetrim.native.errors import WavetrimError
    from wavetrim.scheduler.errors import ExecutionCancelled, FieldError
    from wavetrim.service.errors import FieldProblem, ServiceError

    codes = (
        ((ExecutionCancelled,), ExitCode.INTERRUPTED),
        ((FieldError, FieldProblem, UnknownKernel), ExitCode.REFUSED),
        ((client.ServiceUnreachable, client.ServiceBusy), ExitCode.UNREACHABLE),
        ((client.JobUnsuccessful,), ExitCode.JOB_FAILED),
        ((client.ClientError, ServiceError, WavetrimError), ExitCode.FAILED),
        ((DBAPIError, OSError, MemoryError), ExitCode.FAILED),
    )
    code = next((code for kinds, code in codes if isinstance(error, kinds)), None)
    if isinstance(error, client.JobUnsuccessful):
        return ExitCode.WRONG if (error.error or {}).get("kind") == "verification" else code
    if isinstance(error, client.ServiceRefused) and code is ExitCode.FAILED and error.status < 500:
        return ExitCode.REFUSED
    return code


def _tell_way_out(error: BaseException) -> str:
    """Advice for users of a command, if the service's message is only for users of its API."""
    from http.client import RemoteDisconnected
    from socket import gaierror
    from ssl import SSLCertVerificationError

    from wavetrim.client import ServiceUnreachable, Unauthorized

    if isinstance(error, Unauthorized) and error.status == 401:
        return "; --api-key, WAVETRIM_API_KEY or WAVETRIM_API_KEY_FILE gives one"
    if not isinstance(error, ServiceUnreachable):
        return ""
    match error.__cause__:
        case ConnectionRefusedError() | FileNotFoundError():
            way = "`wavetrim serve` starts one, --url or WAVETRIM_URL names another"
        case gaierror():
            way = "--url or WAVETRIM_URL names the service's host"
        case SSLCertVerificationError():
            way = "SSL_CERT_FILE names the certificate of its authority"
        case RemoteDisconnected() if error.url.startswith("http:"):
            way = "if it speaks https, begin the address with https://"
        case _:
            return ""
    return f"; {way}"


def raise_on_termination() -> None:
    """Let SIGTERM and a closed terminal end a command as Ctrl-C does, with its clean-up."""
    for number in list_ends():
        signal.signal(number, signal.default_int_handler)


def list_ends() -> list[signal.Signals]:
    """The signals that end a command: those that its caller did not have it ignore."""
    return [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]


@contextlib.contextmanager
def note_interrupts() -> Iterator[Callable[[], bool]]:
    """Within the block the first of these signals is only noted, the second interrupts at once.

    Yields:
        A function that says whether there was one. If so, the block's end raises KeyboardInterrupt.
    """
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            signal.default_int_handler(number, frame)
        noted = True

    before = {number: signal.signal(number, note) for number in list_ends()}
    try:
        yield lambda: noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt
