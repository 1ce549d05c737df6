"""`wavetrim demo`: a product from upload to download, checked."""

import contextlib
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from wavetrim.service.cli import options, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rich.console import Console

    from wavetrim.client import Client, Job
    from wavetrim.scheduler.problem import GemmProblem
    from wavetrim.service.cli.local_cluster import LocalCluster
    from wavetrim.service.cli.terminal.comparison import Comparison

EXAMPLES: Final = """[bold]Examples[/]

wavetrim demo
wavetrim demo --size 4096 --dtype float64
wavetrim demo --nodes 3 --size 4096
wavetrim demo 16384 4096 256 --url http://127.0.0.1:8000
"""

_ABANDON_SECONDS: Final = 10.0


def demo(
    m: sizes.M = None,
    n: sizes.N = None,
    k: sizes.K = None,
    *,
    size: Annotated[
        int,
        typer.Option(min=1, help="M, N and K, if they are not given.", rich_help_panel="Product"),
    ] = 2048,
    named_m: sizes.NamedM = None,
    named_n: sizes.NamedN = None,
    named_k: sizes.NamedK = None,
    dtype: options.Dtype = "float32",
    runs: Annotated[
        int, typer.Option(min=1, help="How often to post the job; the first pays for start-up.")
    ] = 2,
    url: Annotated[
        str | None,
        typer.Option(
            help="Address of a running service.",
            show_default="one is started for the demo",
            rich_help_panel="Service",
        ),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(
            min=0,
            help="Start a cluster of this many nodes on this machine, multiply by jobs of row "
            "blocks, and kill a node meanwhile.",
            rich_help_panel="Service",
        ),
    ] = 0,
    api_key: options.ApiKey = None,
) -> None:
    """Start a service, multiply two matrices with it over HTTP, and check the product with NumPy.

    It prints the plan (F, tile, waves), predicted and measured seconds, and PASSED or FAILED. No
    process and no file is left behind, even after Ctrl-C; a service at --url keeps nothing.
    """
    from wavetrim.scheduler.problem import GemmProblem
    from wavetrim.service.cli.exits import CommandFailed, ExitCode
    from wavetrim.service.cli.terminal.display import open_output

    chosen = sizes.choose_sizes((m, n, k), (named_m, named_n, named_k), (size, size, size))
    problem = GemmProblem(*chosen, dtype)
    output = open_output()
    with tempfile.TemporaryDirectory(prefix="wavetrim-demo-") as name:
        folder = Path(name)
        with _open_parts(folder, url, api_key, nodes) as (client, cluster):
            output.print(_name_product(problem), markup=False)
            output.print(f"service: {client.url}", soft_wrap=True)
            if cluster is not None:
                output.print(f"cluster: {nodes} nodes at {cluster.address}", soft_wrap=True)
                comparison = _multiply_over_nodes(client, cluster, problem, output)
            else:
                comparison = _multiply(client, folder, problem, runs, output)
    _print_comparison(comparison, problem, output)
    if not comparison.passed:
        raise CommandFailed("the product is wrong", ExitCode.WRONG)


def _name_product(problem: "GemmProblem") -> str:
    m, n, k = problem.m, problem.n, problem.k
    return f"C[{m},{n}] = A[{m},{k}] · B[{k},{n}], {problem.dtype}"


@contextlib.contextmanager
def _open_parts(
    folder: Path, url: str | None, api_key: str | None, nodes: int
) -> "Iterator[tuple[Client, LocalCluster | None]]":
    """A client of a service, and the cluster that was started for it."""
    from wavetrim.service.cli.jobs import open_client

    with contextlib.ExitStack() as parts:
        if url is not None:
            yield parts.enter_context(open_client(url, api_key)), None
            return
        from wavetrim.service.cli.local_cluster import run_cluster, wait_for_nodes
        from wavetrim.service.cli.local_service import run_service
        from wavetrim.service.cli.machine import load_machine_settings

        cluster = parts.enter_context(run_cluster(folder, nodes)) if nodes else None
        address = None if cluster is None else cluster.address
        client = parts.enter_context(
            run_service(folder, load_machine_settings(), ray_address=address)
        )
        if cluster is not None:
            wait_for_nodes(client, nodes)
        yield client, cluster


def _multiply_over_nodes(
    client: "Client", cluster: "LocalCluster", problem: "GemmProblem", output: "Console"
) -> "Comparison":
    from wavetrim.native.element_types import find_dtype
    from wavetrim.service.cli.cluster_demo import multiply_by_blocks
    from wavetrim.service.cli.terminal.comparison import compare_product

    a = _make_matrix((problem.m, problem.k), problem.dtype, seed=0)
    b = _make_matrix((problem.k, problem.n), problem.dtype, seed=1)
    c = multiply_by_blocks(client, a, b, cluster=cluster, output=output)
    return compare_product(c.view(find_dtype(problem.dtype)), a, b)


def _multiply(
    client: "Client", folder: Path, problem: "GemmProblem", runs: int, output: "Console"
) -> "Comparison":
    """Upload, post, wait, fetch and compare. Stored matrices are removed again."""
    import numpy as np

    from wavetrim.native.element_types import find_dtype
    from wavetrim.service.cli.terminal.comparison import compare_product
    from wavetrim.service.cli.terminal.display import (
        make_plan_table,
        make_timings_table,
        show_bytes,
        show_share,
    )

    shapes = {"A": (problem.m, problem.k), "B": (problem.k, problem.n)}
    stored: list[str] = []
    with contextlib.ExitStack() as undo:
        for seed, (name, shape) in enumerate(shapes.items()):
            path = folder / f"{name}.npy"
            np.save(path, _make_matrix(shape, problem.dtype, seed))
            with show_bytes(output) as move:
                watch = partial(move, f"upload {path.name}")
                stored.append(client.put(path, digest=True, on_progress=watch).id)
            undo.callback(_remove, client, stored[-1])
        for run in range(1, runs + 1):
            job = client.submit(*stored)
            undo.callback(_abandon, client, job)
            with show_share(output, f"job, run {run} of {runs}") as move_share:
                ended = job.wait(progress=lambda status: move_share(status.progress))
        product = folder / "C.npy"
        with show_bytes(output) as move:
            job.download(product, on_progress=partial(move, f"fetch {product.name}"))
    assert ended.plan is not None, "a job that has succeeded has a plan"
    output.print(make_plan_table(ended.plan, problem.m))
    output.print(make_timings_table(ended.timings or {}, ended.plan))
    # NumPy reads bfloat16 as raw bytes.
    kind = find_dtype(problem.dtype)
    a, b, c = (np.load(folder / f"{name}.npy", mmap_mode="r").view(kind) for name in "ABC")
    return compare_product(c, a, b)


def _make_matrix(shape: tuple[int, int], dtype: str, seed: int) -> "NDArray[Any]":
    """A random matrix: floats (and parts of complex numbers) from -1 to 1, one-digit integers."""
    import numpy as np

    from wavetrim.native.element_types import find_dtype, is_integer

    rng = np.random.default_rng(seed)
    kind = find_dtype(dtype)
    if is_integer(kind):
        return rng.integers(0, 10, shape).astype(kind)
    matrix = (rng.random(shape, np.float32) * 2 - 1).astype(kind)
    if kind.kind == "c":
        matrix.imag = rng.random(shape, np.float32) * 2 - 1
    return matrix


def _remove(client: "Client", matrix_id: str) -> None:
    """Remove a matrix; a service that refuses or is away is no error."""
    from wavetrim.client import ClientError

    with contextlib.suppress(ClientError):
        client.delete(matrix_id)


def _abandon(client: "Client", job: "Job") -> None:
    """Stop a job if it still runs, and remove its product."""
    from wavetrim.client import ClientError

    with contextlib.suppress(ClientError):
        job.cancel()
    with contextlib.suppress(ClientError):
        ended = job.wait(timeout_seconds=_ABANDON_SECONDS)
        if ended.result is not None:
            client.delete(ended.result)


def _print_comparison(comparison: "Comparison", problem: "GemmProblem", output: "Console") -> None:
    """Print PASSED or FAILED, and the first elements that differ."""
    elements = problem.m * problem.n
    output.print(
        f"compared with NumPy: {elements} elements, largest error {comparison.max_error:.3g}, "
        f"at most {comparison.allowed:.3g} allowed at K = {problem.k}",
        soft_wrap=True,
    )
    if comparison.passed:
        output.print("[bold green]PASSED[/]")
        return
    output.print(f"{'row':>8} {'column':>8} {'service':>24} {'NumPy':>24}")
    for each in comparison.first:
        output.print(f"{each.row:>8} {each.column:>8} {each.found:>24.17g} {each.expected:>24.17g}")
    if comparison.differing > len(comparison.first):
        output.print("…")
    output.print(f"[bold red]FAILED[/]: {comparison.differing} of {elements} elements differ")
