"""Requests by the OpenAPI document, valid and not, to a real service: schemathesis.

    python -m tests.fuzz.document [--seconds 600] [--seed 1]

Whatever comes back must be what the document says: status, media type, headers and schema. Leases
are for callers of the Unix socket: over TCP their products are refused.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.environment import ROOT
from tests.fuzz.fault import Fault, run_fuzzer
from tests.fuzz.watched import ANSWER_SECONDS, AUTHORIZED, WatchedService

_CONFIG = Path(__file__).with_name("schemathesis.toml")


def fuzz(seconds, seed):
    """Fuzz a service for some time.

    Raises:
        Fault: An answer is not what the document says, or the service has a fault.
    """
    with WatchedService() as service:
        print(f"=== seed {seed}", flush=True)
        _run(service, seconds, seed)
        service.check_now()
        service.forget_matrices()
        print(f"answers by status: {service.count_answers()}", flush=True)


def _run(service, seconds, seed):
    header = next(f"{name}: {value}" for name, value in AUTHORIZED.items())
    command = [
        sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(_CONFIG),
        "run", f"{service.server.url}/openapi.json", "--header", header, "--seed", str(seed),
        "--max-time", str(max(1, round(seconds))), "--max-response-time", str(ANSWER_SECONDS),
    ]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SCHEMATHESIS_HOOKS": "tests.fuzz.document_hooks",
        "FUZZ_MATRICES": ",".join(matrix.id for matrix in service.matrices),
    }
    folder = service.unix_socket.parent
    ended = subprocess.run(command, cwd=folder, env=environment, check=False)
    if ended.returncode:
        raise Fault(f"schemathesis ends with {ended.returncode}; to repeat it: --seed {seed}")


def main():
    return run_fuzzer(__doc__, fuzz)


if __name__ == "__main__":
    sys.exit(main())
