"""`wavetrim multiply`: a product of two files, in this process."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from wavetrim.service.cli import options

if TYPE_CHECKING:
    from wavetrim.scheduler.engine.messages import RunRequest
    from wavetrim.scheduler.execution.rows_done import RowsDone
    from wavetrim.service.machine_settings import MachineSettings

EXAMPLES: Final = """[bold]Examples[/]

wavetrim multiply A.npy B.npy -o C.npy
wavetrim multiply A.npy B.npy -o C.npy --f 256 --kernel register --tile 64x128x16 --verify
wavetrim multiply A.npy B.npy -o C.npy --accuracy strict --sms 66
wavetrim multiply A.npy B.npy -o C.npy --c C.npy --alpha 0.5 --beta 1
"""


def multiply(
    a: Annotated[Path, options.name_file("A.npy", "M x K.")],
    b: Annotated[Path, options.name_file("B.npy", "K x N, of A's element type.")],
    *,
    output: options.Output,
    c: options.AddendFile = None,
    alpha: options.Alpha = 1.0,
    beta: options.Beta = 0.0,
    kernel: options.Kernel = "auto",
    tile: options.Tile = None,
    f: options.F = "auto",
    accuracy: options.Accuracy = None,
    sms: options.Sms = None,
    devices: options.Devices = None,
    verify: options.Verify = False,
    profile_dir: options.ProfileDir = None,
) -> None:
    """Multiply two .npy files in this process: C = alpha A·B + beta C0.

    The files are mapped, not read, so they may be larger than memory. The product's file gets its
    name, and replaces an existing one, only when it is complete (and, with --verify, found right).
    That may be C0's file, but neither A's nor B's.
    """
    from wavetrim.scheduler.engine.messages import Operand, RunRequest
    from wavetrim.scheduler.errors import VerificationFailed
    from wavetrim.service.cli.exits import CommandFailed, ExitCode
    from wavetrim.service.cli.interrupts import note_interrupts
    from wavetrim.service.cli.machine import load_machine_settings, read_plan_options
    from wavetrim.service.cli.matrix_files import (
        check_factors,
        check_output,
        open_matrix,
        write_matrix,
    )
    from wavetrim.service.jobs.operands import check_operands

    plan_options = read_plan_options(
        kernel=kernel, tile=tile, f=f, accuracy=accuracy, sms=sms, devices=devices
    )
    check_factors(alpha=alpha, beta=beta)
    left, right = open_matrix(a), open_matrix(b)
    addend = None if c is None else open_matrix(c)
    problem = check_operands(left, right, addend, alpha=alpha, beta=beta)
    check_output(output, {"A": a, "B": b})
    settings = load_machine_settings(profile_dir=profile_dir)
    with note_interrupts() as interrupted, write_matrix(output, problem) as out:
        request = RunRequest(
            job="",
            a=Operand(**left.operand()),
            b=Operand(**right.operand()),
            c=None if addend is None else Operand(**addend.operand()),
            out=out,
            alpha=alpha,
            beta=beta,
            options=plan_options,
            verify=verify,
        )
        try:
            _run_request(request, settings, interrupted)
        except VerificationFailed as error:
            message = f"the product is wrong and was not kept: {error}"
            raise CommandFailed(message, ExitCode.WRONG) from error


class _Screen:
    """Shows a run: first its plan, then a progress bar."""

    def __init__(self, rows: int, bars: contextlib.ExitStack) -> None:
        from wavetrim.service.cli.terminal.display import open_notes, open_output

        self.output, self._notes = open_output(), open_notes()
        self._rows = rows
        self._bars = bars
        self._move: Callable[[float], None] | None = None

    def show_plan(self, plan: Mapping[str, Any]) -> None:
        from wavetrim.service.cli.terminal.display import make_plan_table, show_share

        self.output.print(make_plan_table(plan, self._rows))
        self._move = self._bars.enter_context(show_share(self._notes, "multiply"))

    def show_progress(self, done: "RowsDone") -> None:
        if self._move is not None:
            self._move(done.share)


def _run_request(
    request: "RunRequest", settings: "MachineSettings", interrupted: Callable[[], bool]
) -> None:
    """Run the product on this machine, and show its plan, progress and timings."""
    from wavetrim.scheduler.engine.run import run_request
    from wavetrim.scheduler.execution.executor import Executor
    from wavetrim.scheduler.planning.cache import PlanCache
    from wavetrim.scheduler.profile.provider import ProfileProvider
    from wavetrim.service.cli.machine import count_threads, find_devices
    from wavetrim.service.cli.terminal.display import (
        announce_compiling,
        describe_check,
        make_timings_table,
        open_notes,
    )

    devices, threads = find_devices(settings), count_threads(settings)
    profiles = ProfileProvider(directory=settings.profile_dir, devices=devices, cpu_threads=threads)
    executor = Executor(
        cache_dir=settings.kernel_cache_dir,
        devices=devices,
        cpu_threads=threads,
        gpu_memory_bytes=settings.gpu_memory_bytes,
    )
    with executor, announce_compiling(open_notes()), contextlib.ExitStack() as bars:
        screen = _Screen(request.a.rows, bars)
        done = run_request(
            request,
            executor,
            profiles.find(),
            slabs=None,
            plans=PlanCache(),
            planned=screen.show_plan,
            progress=screen.show_progress,
            final=None,
            changes=None,
            cancelled=interrupted,
        )
    screen.output.print(make_timings_table(done["timings"], done["plan"]))
    if (check := done["verification"]) is not None:
        screen.output.print(f"verified: {describe_check(check)}")
