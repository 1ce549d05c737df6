"""What the host benchmark left out, as far as no other run has measured it."""

from collections.abc import Iterable, Sequence

from benchmarks.host_names import name_contest, name_product, name_sweep, name_sweeps
from benchmarks.host_rows import HostResults, HostRow, RegretRow
from benchmarks.host_suite import REGRET_SMS
from wavetrim.scheduler.problem import MEMORIES


def split_entry(entry: str) -> tuple[str, str]:
    """What was left out, and why."""
    name, _, why = entry.partition(": ")
    return name, why


def list_gaps(entries: Iterable[str], results: HostResults) -> list[str]:
    """The entries without what the rows hold; of two that name the same, the later one.

    An entry that names several contests or sweeps, of which some were measured, becomes one for
    each of the others; one that has an entry of its own keeps that.

    Args:
        entries: "NAME: REASON" each, in the order in which they were noted.
        results: Has the rows; its own entries are not looked at.
    """
    reasons = dict(map(split_entry, entries))
    done = name_measured(results)
    groups = group_names(results)
    gaps: dict[str, str] = {}
    for name, why in reasons.items():
        parts = groups.get(name, (name,))
        if not any(part in done for part in parts):
            gaps[name] = why
            continue
        gaps |= {part: why for part in parts if part not in done and part not in reasons}
    return [f"{name}: {why}" for name, why in gaps.items()]


def name_measured(results: HostResults) -> set[str]:
    """Names of all contests and sweeps that there are rows of, and of contenders at contests."""
    names = {_name_sweep_of(row, results) for row in results.regret}
    for row in results.rows:
        contest = _name_contest_of(row, results)
        names |= {contest, f"{row.contender} at {contest}"}
    return names


def group_names(results: HostResults) -> dict[str, Sequence[str]]:
    """Names that stand for several contests or sweeps, of the products that there are rows of."""
    rows: list[HostRow | RegretRow] = [*results.rows, *results.regret]
    products = dict.fromkeys((row.shape, row.dtype) for row in rows)
    groups: dict[str, Sequence[str]] = {}
    for shape, dtype in products:
        contests = [name_contest(shape, dtype, memory) for memory in MEMORIES]
        groups[name_product(shape, dtype)] = contests
        groups[name_sweeps(shape, dtype)] = [name_sweep(shape, dtype, x) for x in REGRET_SMS]
    return groups


def drop_superseded(entries: Iterable[str], later: HostResults) -> list[str]:
    """Entries of an earlier run without those about contenders and contests of a later one."""
    contests = {_name_contest_of(row, later) for row in later.rows}
    contenders = {row.contender for row in later.rows}

    def is_superseded(name: str) -> bool:
        _, _, contest = name.partition(" at ")
        return name in contenders or contest in contests

    return [entry for entry in entries if not is_superseded(split_entry(entry)[0])]


def _name_contest_of(row: HostRow, results: HostResults) -> str:
    return name_contest(row.shape, row.dtype, row.memory, _find_budget(row, results))


def _name_sweep_of(row: RegretRow, results: HostResults) -> str:
    return name_sweep(row.shape, row.dtype, _find_budget(row, results))


def _find_budget(row: HostRow | RegretRow, results: HostResults) -> int | None:
    """Multiprocessors that the GPU was held to; None where it was not."""
    return None if row.sms == results.document["hardware"].get("sm_count") else row.sms
