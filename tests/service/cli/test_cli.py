import json
import re

import pytest

from tests.command import invoke_command, run_command
from tests.processes import run_python
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.cli.main import COMMANDS
from wavetrim.service.version import find_version

HEAVY = ("numpy", "fastapi", "sqlalchemy", "pydantic", "uvicorn", "cupy")


def test_help_lists_commands_and_exit_codes(tmp_path):
    helped = invoke_command("--help", folder=tmp_path)
    assert helped.exit_code == 0
    for name in COMMANDS:
        assert f"\n│ {name} " in helped.stdout
    for code in ExitCode:
        assert f"{code.value}  {code.meaning}" in helped.stdout


def test_the_version_is_printed(tmp_path):
    printed = invoke_command("--version", folder=tmp_path)
    assert (printed.exit_code, printed.stdout) == (0, f"wavetrim {find_version()}\n")


def test_help_loads_nothing_heavy(tmp_path):
    code = f"import sys, wavetrim.service.cli.main; print([m for m in {HEAVY} if m in sys.modules])"
    assert run_python(code, folder=tmp_path).stdout == "[]\n"


def test_plans_need_no_numpy(tmp_path):
    code = "import sys; sys.modules['numpy'] = None; import wavetrim.__main__"
    device = ("--device", "A100 SXM 80")
    planned = run_python(code, "plan", 2048, 2048, 2048, *device, folder=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "A100 SXM 80" in planned.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["no-such-command"], ["plan", "1", "2"], ["plan", "1", "2", "x"]),
        *(["reproduce", "no-such"], ["reproduce", "mulmat", "many"]),
    ],
)
def test_wrong_usage_ends_with_2(arguments, tmp_path):
    assert invoke_command(*arguments, folder=tmp_path).exit_code == ExitCode.REFUSED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0", "4", "4"], "m is 0; it must be at least 1"),
        (
            ["4", "4", "4", "--memory", "mapped"],
            "memory is 'mapped'; it must be one of pageable, pinned",
        ),
        (["4", "4", "4", "--f", "5"], 'f is 5; it must be "auto" or 0…4'),
        (["4", "4", "4", "--devices", "0"], "devices is '0'; it must be \"none\": there is no GPU"),
        (["4", "4", "4", "--device", "Voodoo 2"], "device is 'Voodoo 2'; it must be one of"),
        (["9999999", "9999999", "9"], "m, n, k is (9999999, 9999999, 9); it must be smaller: A, B"),
    ],
)
def test_a_plan_that_cannot_be_made_names_field_value_and_limit(arguments, message, tmp_path):
    refused = invoke_command("plan", *arguments, folder=tmp_path)
    assert refused.exit_code == ExitCode.REFUSED
    assert refused.stderr.startswith(f"wavetrim: {message}")
    assert len(refused.stderr.splitlines()) == 1


def test_a_plan_shows_where_each_number_comes_from(tmp_path):
    shown = invoke_command(
        "plan", 4096, 4096, 4096, "--device", "T4", "--cpu-threads", 64,
        "--link-gbytes-per-second", 25, folder=tmp_path, COLUMNS="200",
    ).stdout  # fmt: skip
    table = shown.partition("where the numbers come from")[2].partition("seconds over F")[0]
    rows = {line.split()[1]: line for line in table.splitlines() if line.startswith("│")}
    assert {"GPU", "link", "CPU"} < set(rows)
    assert "datasheet" in rows["GPU"]
    assert "25.0 GB/s in" in rows["link"]
    assert "as asked" in rows["link"]
    assert re.search(r"scaled to 64", rows["CPU"])


def test_a_plan_shows_each_of_several_gpus(tmp_path):
    options = ["--device", "H100 SXM x2", "--memory", "pinned"]
    shown = invoke_command("plan", 16384, 16384, 16384, *options, folder=tmp_path)
    for gpu in (0, 1):
        assert re.search(rf"cuda:{gpu} .* 8192 rows × 16384 columns, \d+ waves, ", shown.stdout)
    one = invoke_command("plan", 256, 256, 256, *options, folder=tmp_path)
    assert "cuda:" not in one.stdout
    named = invoke_command("plan", 256, 256, 256, *options, "--devices", 1, folder=tmp_path)
    assert re.search(r"cuda:1 .* 256 rows", named.stdout)


def test_a_plan_in_json_is_the_planners(tmp_path):
    options = ["--device", "L4", "--kernel", "shared", "--tile", "16", "--dtype", "float32"]
    printed = invoke_command(
        "plan", 3000, 2000, 1000, *options, "--json", folder=tmp_path, WAVETRIM_CPU_THREADS="8"
    )
    profile = find_profile("L4", devices=(), directory=None, cpu_threads=8)
    problem = GemmProblem(3000, 2000, 1000, "float32")
    plan = choose_plan(problem, profile, PlanOptions("shared", "16"))
    assert json.loads(printed.stdout) == plan.describe()


@pytest.mark.parametrize("columns", [60, 120])
def test_a_plan_fits_its_terminal_and_ascii(columns, tmp_path):
    arguments = ["plan", 2048, 2048, 2048, "--device", "T4", "--kernel", "simple", "--timeline"]
    ascii_terminal = {"COLUMNS": str(columns), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    printed = run_command(*arguments, folder=tmp_path, **ascii_terminal)
    assert printed.returncode == 0
    assert printed.stdout.isascii()
    assert max(map(len, printed.stdout.splitlines())) <= columns
    assert "F = " in printed.stdout
    assert "predicted" in printed.stdout
    assert "preset T4" in printed.stdout
    assert re.search(r"\ncopy in +[ ?]+\nkernel ", printed.stdout)
    assert re.search(r"\n +\d+ +\d+ +.* chosen", printed.stdout)


def test_each_wave_has_a_row_of_seconds_over_f_and_the_chosen_one_is_marked(tmp_path):
    options = ["--device", "T4", "--kernel", "cublas", "--f", 448, "--dtype", "float64"]
    two = {"WAVETRIM_CPU_THREADS": "2", "COLUMNS": "80"}
    shown = invoke_command("plan", 4096, 4096, 4096, *options, folder=tmp_path, **two).stdout
    assert max(map(len, shown.splitlines())) <= 80
    lines = shown.partition("seconds over F\n")[2].splitlines()[1:]
    rows = [re.split(r"  +", line.strip()) for line in lines]
    (chosen,) = [row for row in rows if row[-1].endswith("█ ← chosen")]
    assert chosen[:2] == ["448", "46"]
    waves = [int(row[1]) for row in rows]
    assert waves[: waves.index(46) + 1] == [*range(52, 45, -1)]
    gpu_seconds = [float(row[2].partition(" ")[0]) for row in rows if row[2].endswith(" ms")]
    assert gpu_seconds == sorted(gpu_seconds, reverse=True)


def test_accuracy_multiprocessors_and_memory_are_shown(tmp_path):
    options = ["--device", "H200", "--accuracy", "float32", "--sms", 66, "--f", 0]
    printed = invoke_command(
        "plan", 4096, 4096, 4096, *options, "--memory", "pinned", folder=tmp_path
    )
    assert printed.exit_code == 0, printed.stderr
    assert "tensor 128x128x32" in printed.stdout
    assert re.search(r"accuracy .* float32", printed.stdout)
    assert "at most 66" in printed.stdout
    assert "pinned memory" in printed.stdout


def test_a_plan_says_why_no_gpu_has_a_part(tmp_path):
    options = ["--device", "H200", "--dtype", "float16", "--accuracy", "strict"]
    printed = invoke_command("plan", 100, 100, 100, *options, folder=tmp_path)
    reason = "no kernel of accuracy strict multiplies float16 on H200"
    assert f"F = M: {reason}" in printed.stdout
    assert "100 of 100" in printed.stdout
    refused = invoke_command("plan", 100, 100, 100, *options, "--f", 0, folder=tmp_path)
    assert f"{reason}, so the CPU computes every row" in refused.stderr
    told = invoke_command("plan", 100, 100, 100, *options, "--json", folder=tmp_path)
    assert json.loads(told.stdout)["accuracy"] is None


def test_a_calibration_is_stored_and_used(tmp_path, monkeypatch):
    # To be stored, figures need not be those of large products.
    shorter = {"cpu._SECONDS": 0.01, "cpu._UNCACHED_BYTES": 2**22, "cpu._UNCACHED": 0}
    for name, value in shorter.items():
        monkeypatch.setattr(f"wavetrim.scheduler.calibration.{name}", value)
    before = invoke_command("plan", 512, 512, 512, "--json", folder=tmp_path)
    assert "estimate" in json.loads(before.stdout)["profile"]["source"]
    two = {"WAVETRIM_CPU_THREADS": "2"}
    measured = invoke_command("calibrate", folder=tmp_path, **two)
    assert measured.exit_code == 0, measured.stderr
    (stored,) = tmp_path.rglob("*.json")
    assert f"stored in {stored}" in measured.stdout
    profile = find_profile(None, devices=(), directory=stored.parent, cpu_threads=2)
    assert profile.cpu.source.startswith("measured")
    after = invoke_command("plan", 512, 512, 512, "--json", folder=tmp_path, **two)
    found = json.loads(after.stdout)["profile"]
    assert "measured on this machine" in found["source"]
    assert found["cpu"]["gflops"] > 0
    monkeypatch.setattr("wavetrim.service.cli.commands.calibrate._MOST_SPREAD", -1)
    unsteady = invoke_command("calibrate", folder=tmp_path, **two)
    assert unsteady.exit_code == ExitCode.FAILED
    assert "The old profile is kept; --force stores this one" in unsteady.stderr
    forced = invoke_command("calibrate", "--force", folder=tmp_path, **two)
    assert (forced.exit_code, f"stored in {stored}" in forced.stdout) == (0, True)
    told = " ".join(forced.stderr.split())  # where its lines break depends on the figures
    assert "Calibrate again when the machine is at rest." in told
