"""Which error ends a command with which message and exit code."""

from functools import cache

from wavetrim.service.cli.exits import CommandFailed, ExitCode


def explain_failure(error: Exception) -> CommandFailed | None:
    """The message and exit code of an error; None for an unexpected error."""
    if isinstance(error, CommandFailed):
        return error
    code = next((code for kind, code in _list_codes() if isinstance(error, kind)), None)
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
    return CommandFailed(message + _tell_way_out(error), _refine_code(error, code))


@cache
def _list_codes() -> tuple[tuple[type[Exception], ExitCode], ...]:
    """Errors and their codes; the first that fits counts. Help is quicker without the imports."""
    from sqlalchemy.exc import DBAPIError

    from wavetrim import client
    from wavetrim.cpu.errors import CpuError
    from wavetrim.kernels.errors import KernelsError, UnknownKernel
    from wavetrim.scheduler.errors import ExecutionCancelled, FieldError, SchedulerError
    from wavetrim.service.errors import FieldProblem, ServiceError

    return (
        (FieldError, ExitCode.REFUSED),
        (FieldProblem, ExitCode.REFUSED),
        (UnknownKernel, ExitCode.REFUSED),
        (ExecutionCancelled, ExitCode.INTERRUPTED),
        (client.ServiceUnreachable, ExitCode.UNREACHABLE),
        (client.ServiceBusy, ExitCode.UNREACHABLE),
        (client.JobUnsuccessful, ExitCode.JOB_FAILED),
        (client.ClientError, ExitCode.FAILED),
        (ServiceError, ExitCode.FAILED),
        (SchedulerError, ExitCode.FAILED),
        (KernelsError, ExitCode.FAILED),
        (CpuError, ExitCode.FAILED),
        (DBAPIError, ExitCode.FAILED),
        (OSError, ExitCode.FAILED),
        (MemoryError, ExitCode.FAILED),
    )


def _tell_way_out(error: Exception) -> str:
    """Advice for users of a command, if the service's message is only for users of its API."""
    from wavetrim.client import Unauthorized

    if isinstance(error, Unauthorized) and error.status == 401:
        return "; --api-key, WAVETRIM_API_KEY or WAVETRIM_API_KEY_FILE gives one"
    return ""


def _refine_code(error: Exception, code: ExitCode) -> ExitCode:
    """The code of errors for which their class alone does not decide it."""
    from wavetrim.client import JobUnsuccessful, ServiceRefused

    if isinstance(error, ServiceRefused) and code is ExitCode.FAILED and error.status < 500:
        return ExitCode.REFUSED
    if isinstance(error, JobUnsuccessful) and (error.error or {}).get("kind") == "verification":
        return ExitCode.WRONG
    return code
