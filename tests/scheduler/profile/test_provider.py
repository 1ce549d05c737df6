"""The provider of profiles reads calibrations that are stored while it runs."""

from dataclasses import replace

from tests.scheduler.profile.test_profile import H200, measure
from wavetrim.cpu.gemm import CpuPool
from wavetrim.scheduler.calibration.cpu import measure_cpu_quickly
from wavetrim.scheduler.profile.corrections import NO_CORRECTIONS, Factor
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import find_calibration, store_profile
from wavetrim.scheduler.profile.what_if import DescribedGpu


def test_a_profile_is_read_again_when_a_calibration_is_stored(tmp_path):
    with CpuPool(1) as pool:
        provider = ProfileProvider(
            devices=(),
            directory=tmp_path,
            cpu_threads=1,
            measure_cpu=lambda: measure_cpu_quickly(pool),
        )
        brief = provider.find()
        assert brief.measured_at is None
        assert "brief measurement" in brief.cpu.source
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


def test_runs_correct_the_profiles_of_this_machine_only(tmp_path):
    store_profile(measure(), tmp_path)
    provider = ProfileProvider(devices=(H200, H200), directory=tmp_path, cpu_threads=8)
    here = provider.find()
    for _ in range(5):
        here.corrections.note("GPU", 1.0, 1.5)
    assert provider.corrections.list_all() == {"GPU": Factor(reported=1.5, deciding=1.5, runs=5)}
    assert all(gpu.corrections is here.corrections for gpu in here.gpus)
    described = DescribedGpu(
        sm_count=8, clock_mhz=1000, compute_capability=(8, 0), memory_gib=8, count=2
    )
    for elsewhere in (provider.find("T4"), provider.describe(described)):
        assert elsewhere.corrections is NO_CORRECTIONS
    assert len(provider.describe(described).gpus) == 2
