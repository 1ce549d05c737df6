"""`wavetrim multiply`: a product of two files, in this process."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.engine.run import Runner
from wavetrim.scheduler.errors import VerificationFailed
from wavetrim.scheduler.execution.rows import Hooks, RowsDone
from wavetrim.service.cli import display, options
from wavetrim.service.cli.exits import CommandFailed, ExitCode, note_interrupts
from wavetrim.service.cli.machine import Machine, find_machine
from wavetrim.service.cli.matrix_files import check_output, open_matrix, write_matrix
from wavetrim.service.jobs.operands import check_operands, fold


def multiply(
    a: Annotated[Path, options.existing()],
    b: Annotated[Path, options.existing()],
    *,
    output: options.Output,
    c: Annotated[Path | None, options.existing("--c")] = None,
    asked: options.ProductOptions,
    profile_dir: Path | None = None,
) -> None:
    """Multiply two .npy files in this process: C = alpha A·B + beta C0.

    The files are mapped, not read, so they may be larger than memory. The output file appears, or
    replaces an existing one, only when the product is complete (and, with --verify, right). It may
    be the file of C0, but not of A or B.

    Options:
        a (A.npy): M x K.
        b (B.npy): K x N, of A's element type.

    Product:
        c (C0.npy): M x N, added beta times.

    Example:
        python -c "from numpy import *; save('A', eye(512)); save('B', eye(512))"
        wavetrim multiply A.npy B.npy -o C.npy --verify
    """
    plan = asked.read(c)
    left, right = open_matrix(a), open_matrix(b)
    addend = None if c is None else open_matrix(c)
    problem, stack = check_operands(left, right, addend, alpha=asked.alpha, beta=asked.beta)
    check_output(output, A=a, B=b)
    here = find_machine(profile_dir=profile_dir)
    with note_interrupts() as interrupted, write_matrix(output, problem, stack) as out:
        request = RunRequest(
            job="",
            a=left,
            b=right,
            c=addend,
            out=out,
            alpha=asked.alpha,
            beta=asked.beta,
            options=plan,
            verify=asked.verify,
        )
        try:
            _run(fold(request), here, interrupted)
        except VerificationFailed as error:
            message = f"the product is wrong and was not kept: {error}"
            raise CommandFailed(message, ExitCode.WRONG) from error


def _run(request: RunRequest, here: Machine, interrupted: Callable[[], bool]) -> None:
    """Run the product on this machine, and show its plan, then a progress bar, then timings."""
    executor = here.open_executor(here.settings.own_cache_dir)
    output, notes = display.open_output(), display.open_notes()
    with executor, display.announce_compiling(notes), contextlib.ExitStack() as bar:
        moves: list[Callable[[float], None]] = []

        def show_plan(plan: Mapping[str, Any]) -> None:
            output.print(display.make_plan_table(plan))
            moves.append(bar.enter_context(display.show_share(notes, "multiply")))

        def show_progress(done: RowsDone) -> None:
            moves[-1](done.share)

        hooks = Hooks(planned=show_plan, progress=show_progress, cancelled=interrupted)
        done = Runner(executor, here.find_profile).run(request, hooks=hooks)
    output.print(display.make_timings_table(done["timings"], done["plan"]))
    if (check := done["verification"]) is not None:
        output.print(f"verified: {display.describe_check(check)}")
