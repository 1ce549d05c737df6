"""Memory that was freed waits for the next request."""

import subprocess
import sys

from tests.environment import ROOT

COUNT = """
from resource import RUSAGE_SELF, getrusage
from wavetrim.service.cli.server.allocator import keep_freed_memory

keep_freed_memory()

def fault():
    before = getrusage(RUSAGE_SELF).ru_minflt
    for _ in range(200):
        kept = [bytearray(256_000) for _ in range(3)]
        del kept
    return getrusage(RUSAGE_SELF).ru_minflt - before

fault()
print(fault())
"""


def test_buffers_of_bodies_are_not_faulted_in_again() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", COUNT], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert int(printed.stdout) < 200, "less than one page a round, of 189"
