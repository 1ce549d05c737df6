"""The provider of profiles reads calibrations that are stored while it runs."""

from dataclasses import replace
from pathlib import Path

from wavetrim.cpu.gemm import CpuPool
from wavetrim.scheduler.calibration.cpu import measure_cpu_briefly
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import find_calibration, store_profile


def test_a_profile_is_read_again_when_a_calibration_is_stored(tmp_path: Path) -> None:
    with CpuPool(1) as pool:
        provider = ProfileProvider(
            devices=(),
            directory=tmp_path,
            cpu_threads=1,
            measure_cpu=lambda: measure_cpu_briefly(pool),
        )
        brief = provider.find()
        assert brief.measured_at is None
        assert "brief measurement" in brief.find_cpu_rate("float64").source
        assert provider.find() is brief
        key = {"gpu_uuid": "none"}
        for moment in ("2026-01-01T00:00:00", "2026-01-02T00:00:00"):
            stored = store_profile(replace(brief, key=key, measured_at=moment), tmp_path)
            stored.replace(find_calibration(None, tmp_path, 1))
            read = provider.find()
            assert read.measured_at == moment
            assert provider.find() is read
        find_calibration(None, tmp_path, 1).unlink()
        assert provider.find().measured_at is None
