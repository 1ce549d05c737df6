"""Plans that begin with the CPU alone: one for each way to share it with the GPUs."""

from collections.abc import Sequence

from wavetrim.cpu.blocks import is_small
from wavetrim.scheduler.model.curves import build_cpu_curve
from wavetrim.scheduler.planning.plan import Plan, Prediction
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile


def list_cpu_plans(
    problem: GemmProblem,
    profile: MachineProfile,
    positions: Sequence[int],
    copying_share: float,
    relays: Sequence[int],
) -> list[Plan]:
    """The plan of the CPU alone, once for each way to share the CPU with the GPU.

    Args:
        problem: The product.
        profile: The machine.
        positions: Positions of the GPUs.
        copying_share: Share of the GPU part's time in which copies are under way.
        relays: Positions of the relays.
    """
    alone = build_cpu_curve(problem, profile)
    joint = profile.find_joint(problem.memory, len(positions) + len(relays))
    shares = profile.cpu.list_shares(problem.memory)
    if joint is not None:
        shares = tuple(share.slow_memory(joint.split_stretch) for share in shares)
    return [
        Plan(
            problem=problem,
            f=problem.m,
            spec=None,
            sms=None,
            profile=profile,
            predicted=Prediction(0.0, alone.seconds(problem.m)),
            gpu_curve=None,
            gpu_alone_curve=None,
            share=share,
            cpu_curve=build_cpu_curve(problem, profile, share, copying_share),
            cpu_alone_curve=alone,
            is_small=is_small(problem.m, problem.n, problem.k, problem.dtype),
            positions=tuple(positions),
            relays=tuple(relays),
        )
        for share in shares
    ]
