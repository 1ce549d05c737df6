"""The machine code of a compiled kernel."""

import shutil
import subprocess
import sysconfig
from pathlib import Path


def disassemble(cubin):
    """It as text, by NVIDIA's nvdisasm: on the PATH, or in its package."""
    packaged = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin"
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=str(packaged))
    assert found, "nvdisasm is not on the PATH; pip install nvidia-cuda-nvdisasm"
    command = (found, "-c", str(cubin))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
