"""Profiles of machines for tests: those of presets, of an executor, and one that is made up."""

from dataclasses import replace

from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.estimate import estimate_joint
from wavetrim.scheduler.profile.store import build_preset_profile, find_profile


def find_preset_profile(device, cpu_threads=16):
    """The profile of a machine by its name, such as "T4", "H200 x2" or "cpu"."""
    return find_profile(device, devices=(), directory=None, cpu_threads=cpu_threads)


H200 = find_preset_profile("H200")


def run_as_if(plan, times):
    """Record a run of a plan, all of whose parts took `times` their uncorrected predictions."""
    for kind, seconds in zip(plan.kinds, plan.uncorrected, strict=True):  # no time is no run
        plan.profile.corrections.note(kind.name, seconds, times * seconds)


def change_cpu(profile, **changes):
    return replace(profile, cpu=replace(profile.cpu, **changes))


def change_links(profile, **changes):
    return replace(profile, links=tuple(replace(link, **changes) for link in profile.links))


def join_profiles(first, *others):
    """A machine with the GPUs of all of these, and the CPU of the first."""
    beside = tuple(replace(one, index=index) for index, one in enumerate(others, start=1))
    return replace(first, beside=beside)


def join_links(machine, **changes):
    """A machine whose links reach what is estimated, but for some numbers."""
    links = [gpu.find_link("pinned") for gpu in machine.gpus]
    return replace(machine, joint=replace(estimate_joint(links), **changes))


def find_executor_profile(executor):
    """The profile of an executor's devices, without a calibration."""
    return find_profile(
        None, devices=executor.devices, directory=None, cpu_threads=executor.pool.threads
    )


def plan_on(executor, shape, dtype="float32", **options):
    """A plan of a product of M, N, K for an executor's devices."""
    profile = find_executor_profile(executor)
    return choose_plan(GemmProblem(*shape, dtype), profile, PlanOptions(**options))


def make_small_machine(**links):
    """A machine so slow that products of a few hundred rows are split: a GPU of 8 slots.

    Without other numbers its links have 1 GB/s each way.
    """
    gpu = replace(
        H200.gpu, name="small", sm_count=8, memory_gbytes_per_second=10.0, float32_gflops=60.0,
        float64_gflops=30.0, float64_tensor_gflops=30.0,
    )  # fmt: skip
    machine = change_cpu(
        build_preset_profile(gpu, "a test", 16), float32_gflops=40.0, float64_gflops=20.0,
        thread_gflops=5.0, read_gbytes_per_second=10.0, write_gbytes_per_second=8.0,
    )  # fmt: skip
    rates = {"in_gbytes_per_second": 1.0, "out_gbytes_per_second": 1.0, "duplex": 1.2}
    return change_links(machine, **rates | links)
