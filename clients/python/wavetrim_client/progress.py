"""A progress bar for a job that is waited for, if rich is installed."""

import contextlib
from collections.abc import Callable, Iterator

from .records import JobStatus

Watcher = Callable[[JobStatus], None]
"""Receives the job each time the service is asked."""


@contextlib.contextmanager
def watch(progress: bool | Watcher) -> Iterator[Watcher | None]:
    """The function that receives the job while it is waited for; None for none.

    Args:
        progress: True for a bar on standard error (without rich: none), False for none; or the
            function.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield None
        return
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("multiply", total=1.0)
        yield lambda job: bar.update(task, completed=job.progress, description=job.state)
