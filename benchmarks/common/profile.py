"""The profile that plans are made from: read from a file, or measured now."""

import json
import time
from pathlib import Path
from typing import Any

from wavetrim.scheduler.calibration.calibrate import calibrate
from wavetrim.scheduler.calibration.gpus import calibrate_gpus
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.profile.machine import MachineProfile


def make_profile(executor: Executor, cache_dir: Path, file: Path | None) -> MachineProfile:
    """The profile of a file, or of a results file that has one; without a file, measured now.

    Raises:
        ProfileError: The file holds no profile.
        OSError: The file cannot be read.
    """
    if file is not None:
        try:
            document: Any = json.loads(file.read_text(encoding="utf-8"))
            has_one = isinstance(document, dict) and "profile" in document
            return MachineProfile.from_dict(document["profile"] if has_one else document)
        except (ValueError, ProfileError) as error:
            raise ProfileError(f"{file} holds no profile: {error}") from error
    began = time.perf_counter()
    if len(executor.devices) > 1:
        profile = calibrate_gpus(
            lambda devices: Executor(cache_dir=cache_dir, devices=devices),
            executor.devices,
            cache_dir=cache_dir,
        )
    else:
        profile = calibrate(executor, cache_dir=cache_dir, directory=None)
    print(f"calibrated in {time.perf_counter() - began:.0f} s", flush=True)
    return profile
