"""`wavetrim demo`: a product from upload to download, checked; or over the nodes of a cluster.

A product that is too large for one node is a list of jobs. B is stored once; each job has some rows
of A, and its result has the same rows of C. Each job goes to the machine that should end it first.
One node is killed meanwhile: its jobs are computed elsewhere.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
from rich.console import Console

from wavetrim.client import Client
from wavetrim.native.element_types import find_dtype, is_integer
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.cli import display, options
from wavetrim.service.cli.client import ServiceOptions
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.local import LocalCluster, run_cluster, run_service

_BLOCKS: Final = 16
"""Row blocks of a product over nodes; chosen, so that each machine computes several."""


def demo(
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    *,
    size: Annotated[int, typer.Option(min=1)] = 2048,
    dtype: str = "float32",
    runs: Annotated[int, typer.Option(min=1)] = 2,
    url: str | None = None,
    nodes: Annotated[int, typer.Option(min=0)] = 0,
    api_key: options.ApiKey = None,
) -> None:
    """Start a service, multiply two matrices by it, and check the product.

    The product is checked in this process, by projections and by elements that NumPy computes
    again. It prints the plan (F, tile, waves), predicted and measured seconds, and PASSED or
    FAILED. No process and no file is left behind, even after Ctrl-C; a service at --url keeps
    nothing.

    Product:
        size: M, N and K, if they are not given.

    Options:
        runs: How often to post the job; the first run includes start-up.

    Service:
        url (; one is started for the demo): Address of a running service.
        nodes: Start a cluster of this many nodes on this machine, multiply by jobs of row blocks,
            and kill a node meanwhile.

    Example:
        wavetrim demo --size 512
    """
    m, n, k = (size if one is None else one for one in (m, n, k))
    GemmProblem(m, n, k, dtype)  # refuses what is none
    a, b = _make_matrix((m, k), dtype, seed=0), _make_matrix((k, n), dtype, seed=1)
    output = display.open_output()
    with (
        tempfile.TemporaryDirectory(prefix="wavetrim-demo-") as name,
        _open_service(Path(name), url, api_key, nodes) as (client, cluster),
    ):
        output.print(f"C[{m},{n}] = A[{m},{k}] · B[{k},{n}], {dtype}", markup=False)
        output.print(f"service: {client.url}", soft_wrap=True)
        if cluster is not None:
            output.print(f"cluster: {nodes} nodes at {cluster.address}", soft_wrap=True)
            found = _multiply_over_nodes(client, cluster, a, b, output)
        else:
            found = _multiply(client, a, b, runs, output)
    # A client without bfloat16 gets raw bytes.
    check = verify_product(a, b, None, found.view(find_dtype(dtype)))
    output.print(f"checked here: {display.describe_check(check.as_dict())}")
    if not check.passed:
        output.print(f"[bold red]FAILED[/]: {len(check.wrong_rows)} of {m} rows are wrong")
        raise CommandFailed("the product is wrong", ExitCode.WRONG)
    output.print("[bold green]PASSED[/]")


@contextlib.contextmanager
def _open_service(
    folder: Path, url: str | None, api_key: str | None, nodes: int
) -> Iterator[tuple[Client, LocalCluster | None]]:
    """A client of a service, and the cluster that was started for it."""
    with contextlib.ExitStack() as started:
        if url is not None:
            yield started.enter_context(ServiceOptions(url=url, api_key=api_key).open()), None
            return
        cluster = started.enter_context(run_cluster(folder, nodes)) if nodes else None
        yield started.enter_context(run_service(folder, cluster)), cluster


def _multiply(client: Client, a: Matrix, b: Matrix, runs: int, output: Console) -> Matrix:
    """Upload, post, wait and fetch. What was stored is removed again."""
    stored: list[str] = []
    with contextlib.ExitStack() as undo:
        for name, matrix in (("A", a), ("B", b)):
            with display.show_bytes(output) as move:
                watch = partial(move, f"upload {name}")
                stored.append(client.put(matrix, digest=True, on_progress=watch).id)
            undo.callback(client.discard, [stored[-1]])
        for run in range(1, runs + 1):
            job = client.submit(*stored)
            undo.callback(client.take_back, [job.id])
            with display.show_share(output, f"job, run {run} of {runs}") as move_share:
                ended = job.wait(progress=lambda status: move_share(status.progress))
        product = job.result()
    assert ended.plan is not None, "a job that has succeeded has a plan"
    output.print(display.make_plan_table(ended.plan))
    output.print(display.make_timings_table(ended.timings or {}, ended.plan))
    return product


def _multiply_over_nodes(
    client: Client, cluster: LocalCluster, a: Matrix, b: Matrix, output: Console
) -> Matrix:
    """The same by a job for each block of rows; a node is killed after the first of them."""
    stored = client.put(b)
    blocks = np.array_split(a, min(len(a), _BLOCKS))
    jobs = [client.submit(block, stored) for block in blocks]
    parts: list[Matrix] = []
    start = 0
    with display.show_share(output, f"{len(jobs)} jobs of row blocks") as move:
        for done, (block, job) in enumerate(zip(blocks, jobs, strict=True), 1):
            parts.append(job.result())
            if done == 1:
                cluster.kill_last()
                output.print("a node was killed while jobs were computed")
            node = (job.status().plan or {}).get("node")
            where = "this machine" if node is None else f"node {node['id'][:12]}"
            output.print(f"rows {start} to {start + len(block)}: {where}")
            start += len(block)
            move(done / len(jobs))
    return np.concatenate(parts)


def _make_matrix(shape: tuple[int, int], dtype: str, seed: int) -> Matrix:
    """A random matrix: floats (and parts of complex numbers) from -1 to 1, one-digit integers."""
    rng = np.random.default_rng(seed)
    kind = find_dtype(dtype)
    if is_integer(kind):
        return rng.integers(0, 10, shape).astype(kind)
    matrix = (rng.random(shape, np.float32) * 2 - 1).astype(kind)
    if kind.kind == "c":
        matrix.imag = rng.random(shape, np.float32) * 2 - 1
    return matrix
