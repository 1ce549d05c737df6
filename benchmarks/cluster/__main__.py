"""Measures a cluster of four nodes on this machine.

Run `make bench-cluster`, on a machine that does nothing else.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.cluster.engines import SharedMemory, start_engines
from benchmarks.cluster.jobs import measure_jobs
from benchmarks.cluster.overhead import SIZES, measure_overhead
from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import write_document
from benchmarks.common.tables import RESULTS
from wavetrim.service.cli.local_cluster import LocalCluster, run_cluster, wait_for_nodes
from wavetrim.service.cli.local_service import run_service
from wavetrim.service.settings import Settings

NODES: Final = 4
_MEMORY_BYTES: Final = 256 * 2**20


def main() -> None:
    """Measure, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results file")
    _measure(parser.parse_args().out)


def _measure(out: Path) -> None:
    environment = describe_environment()
    with tempfile.TemporaryDirectory(prefix="wavetrim-") as name:
        folder = Path(name)
        with run_cluster(folder, NODES) as cluster:
            overhead = asyncio.run(_measure_overhead(folder, cluster))
            with run_service(folder, Settings(), ray_address=cluster.address) as client:
                wait_for_nodes(client, NODES)
                jobs = [measure_jobs(client, NODES)]
        alone = folder / "alone"
        alone.mkdir()
        with run_service(alone, Settings()) as client:
            jobs.append(measure_jobs(client, 0))
    file = out / f"cluster-{name_host(environment)}.json"
    write_document(file, **environment, nodes=NODES, overhead=overhead, jobs=jobs)
    print(file.read_text(encoding="utf-8"))


async def _measure_overhead(folder: Path, cluster: LocalCluster) -> list[object]:
    memory = SharedMemory(_MEMORY_BYTES)
    async with start_engines(folder / "engines", cluster.address, NODES, memory) as engines:
        return [await measure_overhead(engines, size, runs) for size, runs in SIZES.items()]


if __name__ == "__main__":
    main()
