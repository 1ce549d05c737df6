"""`wavetrim.matmul` in a process: its imports, threads, forks, end and settings."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import wavetrim
from tests.matrices import make_matrix
from tests.processes import expect_output, run_python
from wavetrim.scheduler.local.process import FORKED


def test_importing_wavetrim_imports_nothing_else(tmp_path):
    """And a product needs no HTTP."""
    program = """
import sys, typing
before = set(sys.modules)
import wavetrim
print(*sorted(set(sys.modules) - before))
wavetrim.matmul([[1.0]], [[2.0]])
print({'fastapi', 'httpx', 'sqlalchemy', 'uvicorn'} & set(sys.modules))
"""
    expect_output(program, folder=tmp_path, prints="wavetrim\nset()\n")


def test_several_threads_multiply_at_once():
    operands = [
        (make_matrix(m, 300, "float64", m), make_matrix(300, m, "float64", m + 1))
        for m in (3, 40, 250, 301, 400, 5)
    ]

    def multiply(index):
        a, b = operands[index % len(operands)]
        return np.allclose(wavetrim.matmul(a, b), a @ b)

    with ThreadPoolExecutor(8) as callers:
        assert all(callers.map(multiply, range(120)))


def test_blas_has_all_its_threads_after_a_product(tmp_path):
    program = """
import numpy, threadpoolctl, wavetrim
from concurrent.futures import ThreadPoolExecutor
def count():
    return [x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
before = count()
a = numpy.ones((500, 500))
with ThreadPoolExecutor(4) as callers:
    list(callers.map(lambda _: wavetrim.matmul(a, a), range(20)))
print(before == count(), before)
"""
    expect_output(program, folder=tmp_path, prints="True [2]\n", OPENBLAS_NUM_THREADS="2")


FORK = """
import os, signal, sys, threading, numpy, wavetrim
rows, columns, forks, verify = map(int, sys.argv[1:])
a = numpy.ones((rows, columns), numpy.float32)
def multiply():
    return wavetrim.matmul(a, a.T, verify=bool(verify))
multiply()
stop = threading.Event()
def multiply_on():
    while not stop.is_set():
        multiply()
others = [threading.Thread(target=multiply_on) for _ in range(3)]
for other in others: other.start()
for _ in range(forks):
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        os._exit(0 if (multiply() == columns).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for other in others: other.join()
print(int(multiply().sum()))
"""


@pytest.mark.parametrize(
    ("rows", "columns", "forks", "verify"),
    [(400, 300, 2, False), (110, 120, 5, False), (110, 120, 5, True)],
    ids=["large", "small", "verified"],
)
def test_a_forked_process_multiplies_while_its_parents_threads_do(
    tmp_path, rows, columns, forks, verify
):
    arguments = rows, columns, forks, int(verify)
    total = f"{rows * rows * columns}\n"
    expect_output(FORK, *arguments, folder=tmp_path, prints=total, OPENBLAS_NUM_THREADS="4")


INTERRUPTS = """
import os, signal, sys, time, threadpoolctl, numpy, wavetrim
def count():
    return [x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
signal.signal(signal.SIGALRM, signal.default_int_handler)
a = numpy.ones((300, 300), numpy.float32)
wavetrim.matmul(a, a)
began = time.perf_counter()
for _ in range(20):
    wavetrim.matmul(a, a)
seconds = (time.perf_counter() - began) / 20
before, interrupts = count(), 0
for k in range(200):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-5 + (k % 100) / 50 * seconds)
            wavetrim.matmul(a, a)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupts += 1
signal.alarm(20)  # ends a product that hangs
print(int(wavetrim.matmul(a, a)[0, 0]), count() == before, interrupts > 20)
"""


def test_an_interrupt_at_any_moment_leaves_no_lock_and_no_limit_behind(tmp_path):
    answer = run_python(INTERRUPTS, folder=tmp_path, OPENBLAS_NUM_THREADS="2")
    assert answer.stdout == "300 True True\n", answer.stderr


HANDLER = """
import os, signal, numpy, wavetrim
from wavetrim.scheduler.errors import ExecutionError
a = numpy.ones((900, 900))
wavetrim.matmul(a, a, alpha=2.0)  # by blocks, which a handler may interrupt
said = []
def handle(*_):
    signal.alarm(20)  # ends a handler that hangs
    try:
        wavetrim.matmul(a, a, alpha=2.0)
    except ExecutionError as error:
        said.append(str(error))
    child = os.fork()
    if child == 0:
        os._exit(7)
    said.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    signal.alarm(0)
signal.signal(signal.SIGALRM, handle)
delay = 0.003
while len(said) < 2:  # the product has ended before the signal, or not begun
    said.clear()
    signal.setitimer(signal.ITIMER_REAL, delay)
    delay *= 0.9
    assert (wavetrim.matmul(a, a, alpha=2.0) == 1800).all()
    signal.setitimer(signal.ITIMER_REAL, 0)
print(*said[-2:], sep="; ")
"""


def test_a_signal_handler_may_fork_in_a_product_but_not_multiply(tmp_path):
    refusal = "a product of this thread is running, and has to end first; 7\n"
    assert run_python(HANDLER, folder=tmp_path).stdout == refusal


@pytest.mark.gpu
def test_a_fork_of_a_process_that_used_the_gpu_is_refused_the_gpu(tmp_path):
    program = """
import os, numpy, wavetrim
a = numpy.ones((600, 600), numpy.float32)
wavetrim.matmul(a, a, device="gpu")
child = os.fork()
if child == 0:
    try:
        wavetrim.matmul(a, a)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    print(wavetrim.matmul(a, a, device="cpu")[0, 0], wavetrim.empty((2, 2)).shape, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(wavetrim.matmul(a, a, device="gpu")[0, 0])
"""
    answer = run_python(program, folder=tmp_path)
    assert answer.stdout == f"ForkedProcess {FORKED}\n600.0 (2, 2)\n600.0\n", answer.stderr


END = """
import threading, time, numpy, wavetrim
a = numpy.ones((700, 700))
begun = threading.Semaphore(0)
def multiply_on():
    while True:
        wavetrim.matmul(a, a)
        begun.release()
for _ in range(3):
    threading.Thread(target=multiply_on, daemon=True).start()
for _ in range(3):
    begun.acquire()
"""


def test_the_interpreter_ends_while_daemon_threads_multiply(tmp_path):
    expect_output(END, folder=tmp_path, prints="")


AFTER_MAIN = """
import threading, numpy, wavetrim
a = numpy.ones((500, 400))
def multiply():
    print(wavetrim.matmul(a, a.T, {options}).sum())
{before}
main = threading.main_thread()
def multiply_on():
    main.join()
    multiply()
threading.Thread(target=multiply_on).start()
"""


@pytest.mark.parametrize("before", ["multiply()", ""])
def test_threads_multiply_after_the_main_thread_has_ended(tmp_path, before):
    products = "100000000.0\n" * (2 if before else 1)
    program = AFTER_MAIN.format(before=before, options="")
    expect_output(program, folder=tmp_path, prints=products)


@pytest.mark.gpu
@pytest.mark.parametrize("options", ["device='gpu'", "f=100"])
def test_threads_use_the_gpu_after_the_main_thread_has_ended(tmp_path, options):
    program = AFTER_MAIN.format(before="multiply()", options=options)
    ended = run_python(program, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "100000000.0\n" * 2), ended.stderr


AT_THE_END = """
import atexit, sys, threading, weakref, numpy
a, s = numpy.ones((500, 400)), numpy.ones((2, 300, 300), numpy.complex64)
h, i = numpy.ones((300, 400), numpy.float16), numpy.ones((300, 400), numpy.int64)
def multiply(where):
    b = numpy.ones((400, 400))
    print(where, wavetrim.matmul([[1.0]], [[2.0]])[0, 0], wavetrim.matmul(a, a.T, f=100)[0, 0],
        wavetrim.matmul(h, h.T)[0, 0], wavetrim.matmul(i, i.T, verify=True)[0, 0],
        wavetrim.matmul(s, s)[1, 0, 0].real, wavetrim.matmul(b, b, c=b, beta=2, out=b)[0, 0])
def multiply_in_threads(where):
    for daemon in (True, False):
        thread = threading.Thread(target=multiply, args=(where,), daemon=daemon)
        thread.start()
        thread.join()
atexit.register(multiply, "atexit")
class Held: pass
held = Held()
ended = weakref.finalize(held, multiply, "finalizer")
threading._register_atexit(multiply, "threads' end")
import wavetrim
if {first}: wavetrim.matmul(a, a.T)
atexit.register(multiply_in_threads, "thread")
"""


@pytest.mark.parametrize("first", [True, False], ids=["after-others", "the-first"])
def test_at_the_end_of_the_process_products_are_computed_without_threads(tmp_path, first):
    program = AT_THE_END.replace("{first}", str(first)).replace(", f=100", "")
    places = ["threads' end", "thread", "thread", "finalizer", "atexit"]
    told = [f"{where} 2.0 400.0 400.0 400 300.0 402.0\n" for where in places]
    expect_output(program, folder=tmp_path, prints="".join(told))


@pytest.mark.gpu
def test_at_the_end_of_the_process_the_cpu_computes_all_rows(tmp_path):
    ended = run_python(AT_THE_END.replace("{first}", "True"), folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("400.0 400.0 400 300.0 402.0") == 5


def test_compiled_code_goes_to_the_users_cache_unless_a_folder_is_named(tmp_path):
    program = "import numpy, wavetrim; a = numpy.ones((500, 500)); wavetrim.matmul(a, a, alpha=2.0)"
    cache, data = tmp_path / "cache", tmp_path / "data"
    usual = {"WAVETRIM_KERNEL_CACHE_DIR": "", "XDG_CACHE_HOME": str(cache)}
    run_python(program, folder=tmp_path, **usual)
    (compiled,) = (cache / "wavetrim").glob("cpu-*.so")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    (data / "kernels").mkdir(parents=True)
    compiled.rename(data / "kernels" / compiled.name)
    run_python(program, folder=tmp_path, **usual, WAVETRIM_DATA_DIR=str(data))
    assert not compiled.exists(), "it is found in the named folder"


def test_without_a_home_folder_what_is_compiled_ends_with_the_process(tmp_path):
    program = """
import os, pwd, numpy, wavetrim
def find_nobody(number): raise KeyError(number)
pwd.getpwuid = find_nobody
del os.environ["HOME"]
a = numpy.ones((500, 500))
print(int(wavetrim.matmul(a, a, alpha=2.0)[0, 0]), len(os.listdir()))
"""
    folder = tmp_path / "temporary"
    folder.mkdir()
    answer = run_python(
        program, folder=folder, WAVETRIM_KERNEL_CACHE_DIR="", HOME="/", TMPDIR=str(folder)
    )
    assert answer.stdout == "1000 1\n", answer.stderr
    assert "nothing can be kept in /dev/null/wavetrim (Not a directory)" in answer.stderr
    assert list(folder.iterdir()) == []


def test_a_wrong_setting_is_refused_by_name(tmp_path):
    program = "import wavetrim; wavetrim.matmul([[1.0]], [[2.0]])"
    refused = run_python(program, folder=tmp_path, WAVETRIM_CPU_THREADS="0")
    assert refused.stderr.rstrip().endswith(
        "FieldError: WAVETRIM_CPU_THREADS is '0'; it must be greater than or equal to 1"
    ), refused.stderr
