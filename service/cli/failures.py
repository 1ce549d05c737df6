"""Which failure ends a command with which exit code."""

from functools import cache

from wavetrim.service.cli.exits import CommandFailed, ExitCode


def explain_failure(error: Exception) -> CommandFailed | None:
    """The message and the code that an error ends a command with; None for an unexpected one."""
    if isinstance(error, CommandFailed):
        return error
    code = next((code for kind, code in _list_codes() if isinstance(error, kind)), None)
    if code is None:
        return None
    if code is ExitCode.INTERRUPTED:
        return CommandFailed("interrupted", code)
    message = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    return CommandFailed(message + _tell_way_out(error), _refine_code(error, code))


@cache
def _list_codes() -> tuple[tuple[type[Exception], ExitCode], ...]:
    """Errors and their codes; the first that fits holds. Help is quicker without the imports."""
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
        (OSError, ExitCode.FAILED),
        (MemoryError, ExitCode.FAILED),
    )


def _tell_way_out(error: Exception) -> str:
    """What the caller of a command can do, where the service's words are for callers of its API."""
    from wavetrim.client import Unauthorized

    if isinstance(error, Unauthorized) and error.status == 401:
        return "; --api-key, WAVETRIM_API_KEY or WAVETRIM_API_KEY_FILE gives one"
    return ""


def _refine_code(error: Exception, code: ExitCode) -> ExitCode:
    """The code where the kind of an error alone does not say it."""
    from wavetrim.client import JobUnsuccessful, ServiceRefused

    if isinstance(error, ServiceRefused) and code is ExitCode.FAILED and error.status < 500:
        return ExitCode.REFUSED
    if isinstance(error, JobUnsuccessful) and (error.error or {}).get("kind") == "verification":
        return ExitCode.WRONG
    return code
