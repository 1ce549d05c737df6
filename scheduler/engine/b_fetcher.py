"""Whether a product's B stays on the GPUs, decided before the product is planned."""

from typing import Any

from numpy.typing import NDArray

from wavetrim.scheduler.execution.gpu_residents import GpuResidents
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.device_sets import DeviceSet
from wavetrim.scheduler.planning.residency import Savings
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile


class BFetcher:
    """Compares the plans with and without a resident B, and fetches B to the GPUs if that pays."""

    def __init__(self, residents: GpuResidents, plans: PlanCache) -> None:
        self._residents = residents
        self._plans = plans
        self._savings = Savings()

    def fetch_if_worth(
        self,
        key: str,
        b: NDArray[Any],
        plain: GemmProblem,
        resident: GemmProblem,
        *,
        profile: MachineProfile,
        options: PlanOptions,
        device_set: DeviceSet | None,
    ) -> bool:
        """Whether B is, perhaps fetched by this call, on the GPUs that should compute a product.

        Args:
            key: Key of B.
            b: B.
            plain: The product if B is copied in.
            resident: The same if B is resident.
            profile: The machine.
            options: Options of the plan.
            device_set: The devices that may work at it; None for all.

        Raises:
            PlanError: An option cannot be met.
            ExecutionError: A device failed.
        """
        usual = self._plans.choose(plain, profile, options, device_set)
        positions = range(len(profile.gpus))
        if not positions or plain.b_bytes > self._residents.find_limit(positions):
            return False
        better = self._plans.choose(resident, profile, options, device_set)
        missing = self._residents.find_missing(key, [one.position for one in better.gpu_parts])
        if not self._savings.decide(key, usual, better, missing):
            return False
        return not missing or self._residents.keep(key, b, missing)
