"""How a command ends: its exit codes, and the failure that asks for one."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of every command."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    WRONG = 3
    UNREACHABLE = 4
    JOB_FAILED = 5
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """The meaning of the code, in words."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed: a file, a device or the machine",
    ExitCode.REFUSED: "refused: an option, a file or a request that cannot be met",
    ExitCode.WRONG: "the product is wrong: verification failed",
    ExitCode.UNREACHABLE: "the service does not answer, is full or is stopping: try again",
    ExitCode.JOB_FAILED: "the job failed or was cancelled",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C or SIGTERM; no partial output is left",
}


class CommandFailed(Exception):
    """Ends the command with a message and an exit code.

    Attributes:
        code: The exit code.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code
