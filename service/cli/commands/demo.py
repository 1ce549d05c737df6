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
from typing import Annotated, Any, Final

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from wavetrim.client import Client
from wavetrim.native.element_types import (
    find_accumulator,
    find_dtype,
    find_limits,
    is_integer,
)
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.cli import display, options
from wavetrim.service.cli.client import ServiceOptions
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.local import LocalCluster, run_cluster, run_service

Array = NDArray[Any]

_COMPARED_ROWS: Final = 512
"""Rows that are compared at a time; chosen, so that large products need little more memory."""

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

    The product is compared with NumPy's. It prints the plan (F, tile, waves), predicted and
    measured seconds, and PASSED or FAILED. No process and no file is left behind, even after
    Ctrl-C; a service at --url keeps nothing.

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
    largest, allowed, differing = _compare_product(found.view(find_dtype(dtype)), a, b)
    output.print(
        f"compared with NumPy: {m * n} elements, largest error {largest:.3g}, "
        f"at most {allowed:.3g} allowed at K = {k}",
        soft_wrap=True,
    )
    if differing:
        output.print(f"[bold red]FAILED[/]: {differing} of {m * n} elements differ")
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


def _multiply(client: Client, a: Array, b: Array, runs: int, output: Console) -> Array:
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
    client: Client, cluster: LocalCluster, a: Array, b: Array, output: Console
) -> Array:
    """The same by a job for each block of rows; a node is killed after the first of them."""
    stored = client.put(b)
    blocks = np.array_split(a, min(len(a), _BLOCKS))
    jobs = [client.submit(block, stored) for block in blocks]
    parts: list[Array] = []
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


def _make_matrix(shape: tuple[int, int], dtype: str, seed: int) -> Array:
    """A random matrix: floats (and parts of complex numbers) from -1 to 1, one-digit integers."""
    rng = np.random.default_rng(seed)
    kind = find_dtype(dtype)
    if is_integer(kind):
        return rng.integers(0, 10, shape).astype(kind)
    matrix = (rng.random(shape, np.float32) * 2 - 1).astype(kind)
    if kind.kind == "c":
        matrix.imag = rng.random(shape, np.float32) * 2 - 1
    return matrix


def _compare_product(found: Array, a: Array, b: Array) -> tuple[float, float, int]:
    """Compare a product M x N with NumPy's in float64 or complex128; integers, with the exact one.

    An element may be off by the rounding of its sum. The K additions err to either side, so
    their errors grow as the square root of K (Higham and Mary, A new approach to probabilistic
    rounding error analysis, 2019): |error| <= 4 sqrt(K) u |a_i| |b_j|, with the lengths of A's row
    and B's column, and u the roundoff of the element type (of float32 for halves, which are summed
    in it). A part of a complex element is a sum of 2 K products. Integers must agree, modulo their
    word size; |A||B| must be below 2**53.

    Returns:
        The largest error, the largest that is allowed, and the number of elements that differ.
    """
    right = b.astype(np.complex128 if b.dtype.kind == "c" else np.float64)
    starts = range(0, len(a), _COMPARED_ROWS)
    blocks = [slice(start, start + _COMPARED_ROWS) for start in starts]
    compared = [_compare_rows(found[rows], a[rows], right) for rows in blocks]
    errors, limits, differing = zip(*compared, strict=True)
    return max(errors), max(limits), sum(differing)


def _compare_rows(found: Array, a: Array, right: Array) -> tuple[float, float, int]:
    """The same of some rows; of B in the type of the comparison."""
    dtype, left = found.dtype, a.astype(right.dtype)
    expected = left @ right
    if is_integer(dtype):
        expected = expected.astype(np.int64).astype(dtype).astype(np.float64)
        limit = np.zeros(expected.shape)
    else:
        roundoff = float(find_limits(find_accumulator(dtype)).eps) / 2
        of_reference = 2 if dtype in (np.float64, np.complex128) else 1  # it errs as much
        summed = 4 * np.sqrt(a.shape[1]) * roundoff * of_reference * (2 if dtype.kind == "c" else 1)
        lengths = np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=0))
        limit = summed * lengths + float(find_limits(dtype).eps) * np.abs(expected)
    error = np.abs(found.astype(right.dtype) - expected)
    differing = np.count_nonzero(~(error <= limit))  # NaN is wrong, too
    return float(error.max()), float(limit.max()), int(differing)
