"""Relays: GPUs that compute nothing of a product, but whose links carry a part of its bytes.

For a GPU whose multiprocessors are busy and whose link is not. Each link carries an equal part, so
together they are about as fast as while each GPU copies for itself. Where both GPUs may compute, a
team is faster, as nothing then crosses from one to the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.model.corrections import Correction, Corrections, RunClass
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.joint import LinkRates, estimate_joint_links
from wavetrim.scheduler.profile.machine import LinkModel, MachineProfile

_RELAY_WEIGHT: Final = 3.0
"""Commands that each relay adds to a step, over those of a step without one: a copy through a slot
is two, each with its events. Chosen: steps of five products of 20 to 800 MB have 26 to 40 commands
in place of 9; larger ones have more, and take longer than enqueueing them."""


def find_relays(profile: MachineProfile, devices: str | None) -> tuple[int, ...]:
    """The positions of the relays that a choice of GPUs names, such as "0+1".

    Args:
        profile: The machine.
        devices: The choice, whose GPUs are there; None for all, none of which is a relay.

    Raises:
        PlanError: A GPU is named twice.
    """
    if devices is None or "+" not in devices:
        return ()
    first, *others = map(int, devices.split("+"))
    if len({first, *others}) <= len(others):
        raise PlanError("devices", devices, "the index of each GPU once")
    gpus = profile.gpus
    return tuple(position for position, gpu in enumerate(gpus) if gpu.index in others)


def can_relay(problem: GemmProblem, profile: MachineProfile) -> bool:
    """Whether relays may carry its bytes: from page-locked memory, where GPUs reach each other."""
    return problem.memory == "pinned" and profile.peer_gbytes_per_second > 0


def join_links(machine: MachineProfile, position: int, relays: Sequence[int]) -> MachineProfile:
    """The profile of a GPU whose bytes cross the links of relays, too.

    Args:
        machine: The machine, which knows the joint rates.
        position: Position of the GPU that computes.
        relays: Positions of the relays; at least one.
    """
    gpu = machine.gpus[position]
    others = [machine.gpus[one].find_link("pinned") for one in relays]
    return replace(
        gpu,
        links=tuple(
            _join(machine, [link, *filter(None, others)]) if link.memory == "pinned" else link
            for link in gpu.links
        ),
        corrections=_RelayedCorrections(gpu.corrections, 1 + len(relays)),
    )


def _join(machine: MachineProfile, links: Sequence[LinkModel]) -> LinkModel:
    """The links of a GPU and its relays as one."""
    count, further, link = len(links), len(links) - 1, links[0]
    rates = [
        LinkRates(1e9 * one.in_gbytes_per_second, 1e9 * one.out_gbytes_per_second, 2 * one.together)
        for one in links
    ]
    joint = machine.find_joint("pinned", count) or estimate_joint_links("pinned", rates)
    # Equal parts: the slowest link ends last.
    into = min(joint.in_gbytes_per_second, count * min(one.in_gbytes_per_second for one in links))
    out = min(joint.out_gbytes_per_second, count * min(one.out_gbytes_per_second for one in links))
    return replace(
        link,
        in_gbytes_per_second=into,
        out_gbytes_per_second=out,
        together=max(0.5, (into + out) / joint.both_gbytes_per_second / 2),
        row_seconds=link.row_seconds / count,
        copy_seconds=2 * link.copy_seconds,
        call_seconds=link.call_seconds + joint.further_seconds,
        step_seconds=(1 + _RELAY_WEIGHT * further) * link.step_seconds,
        source=f"{joint.source}; with {further} relays",
    )


@dataclass(frozen=True, slots=True)
class _RelayedCorrections:
    """The corrections of products with relays: apart from those of one GPU."""

    all: Corrections
    links: int

    def find(self, run_class: RunClass) -> Correction:
        """As `Corrections.find`."""
        return self.all.find(run_class.in_team("one", self.links))

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """As `Corrections.note`; a class that was found has its name already."""
        self.all.note(run_class, predicted_seconds, measured_seconds)

    def list_all(self) -> list[Correction]:
        """As `Corrections.list_all`."""
        return self.all.list_all()
