"""Which failure ends a command with which exit code."""

from typing import Final

from wavetrim.cpu.errors import CpuError
from wavetrim.kernels.errors import KernelsError, UnknownKernel
from wavetrim.scheduler.errors import ExecutionCancelled, FieldError, SchedulerError
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.client_errors import (
    ClientError,
    JobUnsuccessful,
    ServiceBusy,
    ServiceRefused,
    ServiceUnreachable,
)
from wavetrim.service.errors import FieldProblem, ServiceError

_CODES: Final[tuple[tuple[type[Exception], ExitCode], ...]] = (
    (FieldError, ExitCode.REFUSED),
    (FieldProblem, ExitCode.REFUSED),
    (UnknownKernel, ExitCode.REFUSED),
    (ExecutionCancelled, ExitCode.INTERRUPTED),
    (ServiceUnreachable, ExitCode.UNREACHABLE),
    (ServiceBusy, ExitCode.UNREACHABLE),
    (JobUnsuccessful, ExitCode.JOB_FAILED),
    (ClientError, ExitCode.FAILED),
    (ServiceError, ExitCode.FAILED),
    (SchedulerError, ExitCode.FAILED),
    (KernelsError, ExitCode.FAILED),
    (CpuError, ExitCode.FAILED),
    (OSError, ExitCode.FAILED),
    (MemoryError, ExitCode.FAILED),
)
"""The first entry that fits holds."""


def explain_failure(error: Exception) -> CommandFailed | None:
    """The message and the code that an error ends a command with; None for an unexpected one."""
    if isinstance(error, CommandFailed):
        return error
    code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
    if code is None:
        return None
    if isinstance(error, ServiceRefused) and code is ExitCode.FAILED and error.status < 500:
        code = ExitCode.REFUSED
    if isinstance(error, JobUnsuccessful) and (error.error or {}).get("kind") == "verification":
        code = ExitCode.WRONG
    if code is ExitCode.INTERRUPTED:
        return CommandFailed("interrupted", code)
    return CommandFailed(str(error) or type(error).__name__, code)
