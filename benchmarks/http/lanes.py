"""Throughput of equal jobs, by the GPUs that a service may use.

`python -m benchmarks.http.lanes --devices 0 --devices 0,1` starts a service for each choice and
prints, as JSON, its products a second. All jobs are posted at once; results stay in memory.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.common.operands import draw_operands
from benchmarks.common.shapes import make_cube
from benchmarks.http.baselines.baseline import Setup
from benchmarks.http.baselines.service import Service
from benchmarks.http.clients.message import encode_npy
from benchmarks.http.clients.service_calls import WAITING, CallFailed, ServiceCalls
from benchmarks.http.transfers import store_matrix

ROUNDS: Final = 3
"""Rounds, of which the fastest counts; chosen."""


def measure(setup: Setup, devices: str, jobs: int, size: int) -> dict[str, Any]:
    """Products a second of a service that may use these GPUs, and where its last jobs ran."""
    os.environ["WAVETRIM_DEVICES"] = devices
    service = Service(setup)
    service.start()
    try:
        with ServiceCalls(service.port) as calls:
            operands = draw_operands(make_cube(size), "float32")
            a, b = (
                store_matrix(service.unix.as_posix(), "/v1/matrices", encode_npy(one))[1]["id"]
                for one in (operands.a, operands.b)
            )
            request = {"a": a, "b": b, "storage": "memory"}
            calls.run_job(**request)  # compiles
            found = [_run_all(calls, request, jobs) for _ in range(ROUNDS)]
    finally:
        service.stop()
    seconds, places = min(found, key=lambda one: one[0])
    return {"devices": devices, "products_per_second": jobs / seconds, "jobs_by_devices": places}


def _run_all(
    calls: ServiceCalls, request: dict[str, Any], count: int
) -> tuple[float, dict[str, int]]:
    """Seconds from the first job's POST to the last one's end, and jobs by the devices they had."""
    began = time.perf_counter()
    posted = [calls.call("POST", "/v1/jobs", request)["id"] for _ in range(count)]
    places: dict[str, int] = {}
    results = []
    for job_id in posted:
        job = calls.call("GET", f"/v1/jobs/{job_id}?{WAITING}")
        if job["state"] != "succeeded":
            raise CallFailed(f"job {job_id}: {job['state']}, {job['error']}")
        place = " ".join(one["device"] for one in job["plan"]["devices"])
        places[place] = places.get(place, 0) + 1
        results.append(job["result"])
    seconds = time.perf_counter() - began
    for result in results:
        calls.call("DELETE", f"/v1/matrices/{result}")
    return seconds, places


def main() -> int:
    """Measure each choice of GPUs; prints the first one's throughput and the others' against it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http.lanes", description=__doc__)
    parser.add_argument("--devices", action="append", required=True, help="as WAVETRIM_DEVICES")
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--size", type=int, default=4096)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for number, devices in enumerate(asked.devices):
            place = Path(folder) / str(number)
            place.mkdir()
            setup = Setup(folder=place)
            rows.append(measure(setup, devices, asked.jobs, asked.size))
            rows[-1]["over_first"] = (
                rows[-1]["products_per_second"] / rows[0]["products_per_second"]
            )
    print(json.dumps({"jobs": asked.jobs, "size": asked.size, "rows": rows}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
