"""What else a machine does while products are measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.host.conditions import CannotMake, burn_cores, make_half_group
from tests.environment import ROOT
from tests.processes import is_gone, wait_until


def read_cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_busy_processes_compute_until_the_block_ends_in_whatever_way():
    class Interrupted(BaseException):
        pass

    pids = []

    def burn():
        with burn_cores(2) as found:
            pids.extend(found)
            wait_until(lambda: all(read_cpu_seconds(pid) > 0.2 for pid in pids))
            raise Interrupted

    with pytest.raises(Interrupted):
        burn()
    assert len(pids) == 2
    assert all(map(is_gone, pids))


@pytest.mark.needs("time-group")
def test_half_is_half_the_cores_time_from_the_start_of_a_process():
    program = (
        "from pathlib import Path; from wavetrim.cpu.threads import read_cpu_quotas;"
        "print(min(read_cpu_quotas(Path('/'))))"
    )
    try:
        with make_half_group(2) as prefix:
            found = subprocess.run(
                [*prefix, sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True
            )
            groups = list(Path("/sys/fs/cgroup").rglob(f"wavetrim-bench-{os.getpid()}"))
    except CannotMake as error:
        pytest.skip(str(error))
    assert float(found.stdout) == 1
    assert len(groups) == 1
    assert not groups[0].exists()
