"""Results of several runs of the host benchmark in one file."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.environment import describe_environment
from benchmarks.host_commits import CommitMarks
from benchmarks.host_merge import merge_results
from benchmarks.host_names import name_contest, name_sweep
from benchmarks.host_results import HostRecord
from benchmarks.host_rows import HostResults, HostRow
from benchmarks.host_summary import OURS
from benchmarks.host_tables import SECTIONS, fill_page
from benchmarks.measured import ResultsError
from tests.host_figures import (
    ALL_SMS,
    HEAD,
    invent_host_results,
    invent_host_row,
    invent_sweep,
    write_host_results,
)
from wavetrim.scheduler.profile import find_profile

ROOT = Path(__file__).parent.parent
EARLIER = invent_host_results()


def invent_later(*rows: HostRow, regret: Any = (), **head: Any) -> HostResults:
    """A later run of another commit."""
    about = {"commit": "def", "measured_at": "2032-01-01T00:00:00+00:00", "left_out": []}
    return HostResults(
        "abacus",
        {**HEAD, **about, **head},
        tuple(replace(row, commit="def") for row in rows),
        tuple(replace(row, commit="def") for row in regret),
    )


def leave_out(results: HostResults, *entries: str) -> HostResults:
    return replace(results, document={**results.document, "left_out": list(entries)})


def merge_entries(earlier: list[str], later: list[str], *rows: HostRow, regret: Any = ()):
    """What is left out after two runs, the later one of which has these rows."""
    nothing = replace(EARLIER, rows=(), regret=())
    merged = merge_results(
        leave_out(nothing, *earlier), leave_out(invent_later(*rows, regret=regret), *later)
    )
    return merged.document["left_out"]


# --- rows ----------------------------------------------------------------------------------------


def test_a_contest_that_is_measured_anew_replaces_the_older_one_whole() -> None:
    later = invent_later(invent_host_row(OURS), invent_host_row("cupy"))
    merged = merge_results(EARLIER, later)
    contest = [row for row in merged.rows if row.place == later.rows[0].place]
    assert contest == list(later.rows)
    others = [row for row in EARLIER.rows if row.place != later.rows[0].place]
    assert list(merged.rows) == [*others, *later.rows]
    assert {row.commit for row in others} == {"abc"}
    assert merged.regret == EARLIER.regret


def test_products_that_differ_in_memory_type_or_budget_are_other_contests() -> None:
    changes = ({"memory": "pageable"}, {"dtype": "float64"}, {"sms": 8})
    for change in changes:
        before = replace(EARLIER, rows=(invent_host_row(OURS, **change),), regret=())
        assert len(merge_results(before, invent_later(invent_host_row(OURS))).rows) == 2


def test_a_sweep_that_is_measured_anew_replaces_the_older_one() -> None:
    sweep = invent_sweep(sms=32, regret=1.5)
    merged = merge_results(EARLIER, invent_later(regret=[sweep]))
    assert len(merged.regret) == len(EARLIER.regret)
    (found,) = (row for row in merged.regret if row.place == sweep.place)
    assert (found.regret, found.commit) == (1.5, "def")
    assert [row.commit for row in merged.regret].count("def") == 1


def test_what_stands_above_the_rows_is_of_the_later_run() -> None:
    later = invent_later(
        invent_host_row(OURS), profile={"new": 1}, versions={"cupy-cuda13x": "3.4", "torch": "9"}
    )
    document = merge_results(EARLIER, later).document
    assert (document["commit"], document["profile"]) == ("def", {"new": 1})
    assert document["measured_at"] == later.document["measured_at"]
    assert document["versions"] == {"cupy-cuda13x": "3.4", "numpy": "5.6", "torch": "9"}


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"hardware": HEAD["hardware"] | {"cores": 8}}, "hardware: cores was 16 and is 8"),
        ({"versions": {"numpy": "5.7"}}, "versions: numpy was 5.6 and is 5.7"),
        ({"measured_at": "2030-12-31"}, "the earlier run is of 2031-.*, the later one of 2030-"),
    ],
)
def test_runs_that_one_caption_cannot_tell_are_not_merged(head, message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        merge_results(EARLIER, invent_later(invent_host_row(OURS), **head))


def test_rows_without_a_commit_are_of_the_files(tmp_path: Path) -> None:
    file = write_host_results(EARLIER, tmp_path)
    document = json.loads(file.read_text(encoding="utf-8"))
    for row in (*document["rows"], *document["regret"]):
        del row["commit"]
    document["rows"][0]["commit"] = "older"
    file.write_text(json.dumps(document), encoding="utf-8")
    read = HostResults.read(file)
    assert read.rows[0].commit == "older"
    assert {row.commit for row in (*read.rows[1:], *read.regret)} == {"abc"}


# --- what was left out ---------------------------------------------------------------------------


def test_what_either_run_measured_does_not_claim_to_be_missing() -> None:
    rows = [invent_host_row(OURS, memory=memory) for memory in ("pageable", "pinned")]
    held = invent_host_row(OURS, memory="pageable", sms=8)
    gone = ["4096³ float32: 5 s are left", "4096³ float32 on 8 multiprocessors: 2 s are left"]
    stay = ["4096³ float64: 5 s are left", "4096³ float32 on 4 multiprocessors: 2 s are left"]
    assert merge_entries([*gone, *stay], [], *rows, held) == stay
    before = leave_out(replace(EARLIER, rows=(*rows, held), regret=()))
    after = leave_out(invent_later(invent_host_row(OURS, dtype="float64")), *gone, *stay)
    # Of float64 only the contest from pinned memory was measured.
    left = ["4096³ float64 pageable: 5 s are left", stay[1]]
    assert merge_results(before, after).document["left_out"] == left


def test_sweeps_are_missing_by_budget() -> None:
    swept = [invent_sweep(sms=ALL_SMS)]
    long = "F at 4096³ float32, 8 multiprocessors: too long to sweep"
    late = "F at 4096³ float32: 3 s are left"
    assert merge_entries([late, long], [], regret=swept) == [
        "F at 4096³ float32, 32 multiprocessors: 3 s are left",
        long,
    ]
    swept.append(invent_sweep(sms=32))
    assert merge_entries([late, long], [], regret=swept) == [long]
    assert merge_entries([late, long], []) == [late, long]


def test_of_the_same_gap_the_later_reason_stands_once() -> None:
    early, late = ["1024³ float64: 5 s are left"], ["1024³ float64: 7 s are left"]
    assert merge_entries(early, late) == late


def test_refusals_go_with_the_contest_that_they_were_in() -> None:
    here, there = "4096³ float32 pinned", "1024³ float32 pinned"
    early = ["torch: not there", f"cupy at {here}: lost", f"cupy at {there}: lost"]
    late = [f"torch at {here}: no memory"]
    rows = [invent_host_row(OURS), invent_host_row("cublasxt")]
    assert merge_entries(early, late, *rows) == [early[0], early[2], *late]
    taking_part = [*rows, invent_host_row("torch", k=64)]
    assert merge_entries(early, late, *taking_part) == [early[2], *late]


def test_names_tell_budgets_from_the_whole_gpu() -> None:
    shape = (4096, 4096, 4096)
    assert name_contest(shape, "float32", "pinned") == "4096³ float32 pinned"
    assert name_contest(shape, "float32", "pageable", 8) == "4096³ float32 on 8 multiprocessors"
    assert name_sweep(shape, "float32", None) == "F at 4096³ float32, all multiprocessors"


# --- the record of a run -------------------------------------------------------------------------


def record_run(folder: Path, commit: str) -> HostRecord:
    head = {name: HEAD[name] for name in ("hardware", "versions", "measured_at")}
    return HostRecord(folder / "host-abacus.json", head | {"commit": commit})


@pytest.mark.parametrize("commit", ["abc", "def"])
def test_a_later_run_replaces_what_it_measured_again(tmp_path: Path, commit: str) -> None:
    record = record_run(tmp_path, commit)
    known = record.keep(leave_out(replace(EARLIER, document={**HEAD, "profile": {"old": 1}})))
    assert known == ({"old": 1} if commit == "abc" else None)
    record.describe(profile={"new": 1})
    again = replace(EARLIER.rows[0], seconds=123.0, commit=None)
    record.add(rows=[again], regret=[EARLIER.regret[0]])
    record.leave_out("something", "no time")
    record.write()
    read = HostResults.read(tmp_path / "host-abacus.json")
    assert read.rows[-1] == replace(again, commit=commit)
    assert [row for row in read.rows if row.place == again.place] == [read.rows[-1]]
    assert len(read.regret) == len(EARLIER.regret)
    assert (read.document["commit"], read.document["profile"]) == (commit, {"new": 1})
    assert read.document["left_out"] == ["something: no time"]
    assert [x.name for x in tmp_path.iterdir()] == ["host-abacus.json"]


def test_a_run_on_other_hardware_keeps_nothing(tmp_path: Path) -> None:
    record = record_run(tmp_path, "abc")
    other = {**HEAD, "hardware": HEAD["hardware"] | {"gpu": "Slide rule"}}
    with pytest.raises(
        ResultsError, match=r"host-abacus\.json: hardware: gpu was Slide rule and is"
    ):
        record.keep(replace(EARLIER, document=other))


def test_a_run_with_keep_leaves_contests_of_another_commit(tmp_path: Path) -> None:
    environment = describe_environment()
    sms = environment["hardware"]["sm_count"]
    row = invent_host_row("numpy", k=7, sms=sms, memory="pageable", commit="eldest")
    old = {**environment, "commit": "older", "left_out": ["64×48×32 float32: no time"]}
    out = tmp_path / "host-here.json"
    HostResults("here", old, (row,), ()).write(out)
    profile = tmp_path / "profile.json"
    here = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    profile.write_text(json.dumps(here.as_dict()), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.host", "--keep", "--out", str(out)]
    command += ["--shapes", "64x48x32", "--contenders", "numpy", "--parts", "rows"]
    command += ["--profile", str(profile), "--seconds", "30", "--memories", "pageable"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    read = HostResults.read(out)
    assert read.document["commit"] == environment["commit"]
    assert read.rows[0] == row
    assert {(x.shape, x.commit) for x in read.rows[1:]} == {((64, 48, 32), environment["commit"])}
    assert read.document["left_out"] == ["64×48×32 float32 pinned: no time"]


def test_the_command_merges_files_once(tmp_path: Path) -> None:
    earlier = write_host_results(EARLIER, tmp_path)
    (tmp_path / "later").mkdir()
    later = write_host_results(invent_later(invent_host_row(OURS)), tmp_path / "later")
    command = [sys.executable, "-m", "benchmarks.host_merge", str(earlier), str(later)]
    before = later.read_bytes()
    subprocess.run(command, check=True, cwd=ROOT)
    once = earlier.read_bytes()
    assert {row.commit for row in HostResults.read(earlier).rows} == {"abc", "def"}
    subprocess.run(command, check=True, cwd=ROOT)
    assert earlier.read_bytes() == once
    assert later.read_bytes() == before


def test_the_command_refuses_files_in_the_wrong_order(tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    later = write_host_results(invent_later(invent_host_row(OURS)), tmp_path / "later")
    before = later.read_bytes()
    command = [sys.executable, "-m", "benchmarks.host_merge", str(later)]
    command.append(str(write_host_results(EARLIER, tmp_path)))
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 1
    assert "the earlier run is of 2032-" in ran.stderr
    assert later.read_bytes() == before


# --- marks ---------------------------------------------------------------------------------------


def test_each_older_commit_has_a_mark() -> None:
    names = ("a", "b", "c", "d", "e")
    rows = [invent_host_row(OURS, m=place, commit=x) for place, x in enumerate(names, 1)]
    marks = CommitMarks.find(invent_later(*rows))
    assert marks.signs == {}
    marks = CommitMarks.find(replace(EARLIER, rows=tuple(rows), regret=()))
    assert list(marks.signs.values()) == ["†", "‡", "§", "¶", "††"]
    assert marks.show(["c", "abc", "a"]) == " † §"
    assert marks.show(["abc"]) == ""
    assert marks.count(["a", "abc", "a", "b"]) == "4 (2 †, 1 ‡)"
    assert marks.count(["abc"]) == "1"
    assert marks.explain("| 4 (2 †, 1 ‡) |") == "; † of commit a; ‡ of commit b"
    assert marks.explain("| 1024³ †† |") == "; †† of commit e"
    assert marks.explain("| 1024³ |") == ""


def test_the_page_marks_what_is_of_an_older_commit() -> None:
    again = [row for row in EARLIER.rows if row.memory == "pageable" and row.m != 4224]
    swept = [row for row in EARLIER.regret if row.sms != 8 and row.m != 4224]
    merged = merge_results(EARLIER, invent_later(*again, regret=swept))
    shown = {name: render(merged) for name, render in SECTIONS.items()}
    assert "| 4224³ † | 95% | 10 |" in shown["times"]
    assert "| 8192³ | 95% | 10 |" in shown["times"]
    assert "| 8192³ † | 95% | 10 |" in shown["times"]
    assert "†" not in shown["held"] + shown["link"] + shown["left-out"]
    assert "| float32 | all | 26 (1 †) |" in shown["regret"]
    assert "| float32 | 8 | 26 (26 †) |" in shown["regret"]
    mean = "| pageable: mean speed over plain CuPy's | float32 | ≥ 4 | 5.000 † | yes |"
    assert mean in shown["promises"]
    few = "| 4 multiprocessors: speed over the better device alone, 4096³, 8192³ | float64 "
    assert f"{few}| ≥ 1.5 | 1.600 | yes |" in shown["promises"]
    page = "".join(f"<!-- host-{name} -->\n<!-- /host-{name} -->\n" for name in SECTIONS)
    filled = fill_page(page, [merged])
    assert filled.count("; commit def; † of commit abc:\n") == 2
    mixed = "; commit def; † with contests or sweeps of commit abc, each complete in itself:\n"
    assert filled.count(mixed) == 1
    assert filled.count("; commit def:\n") == len(SECTIONS) - 3


def test_a_figure_that_was_not_found_has_no_mark() -> None:
    older = replace(EARLIER, rows=EARLIER.rows[:1], regret=())
    merged = merge_results(older, invent_later(invent_host_row(OURS)))
    assert "†" not in SECTIONS["promises"](merged)
