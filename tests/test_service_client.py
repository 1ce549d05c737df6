import contextlib
import hashlib
import http.server
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.matrices import Array, assert_product, make_matrix
from tests.server import RunningServer, find_free_port, server, start_server
from wavetrim.scheduler.wishes import Wishes
from wavetrim.service.api.wire.digests import format_digest
from wavetrim.service.client import WavetrimClient
from wavetrim.service.client_errors import (
    DownloadCorrupted,
    JobUnsuccessful,
    ServiceBusy,
    ServiceRefused,
    ServiceUnreachable,
    WaitTimeout,
)
from wavetrim.service.client_records import RemoteJob

__all__ = ["server", "start_server"]

SLOW = 900  # an int64 product of this size takes about a second


@pytest.fixture
def client(server: RunningServer) -> Iterator[WavetrimClient]:
    with WavetrimClient(server.url) as opened:
        yield opened


def fetch(client: WavetrimClient, matrix_id: str, folder: Path) -> Array:
    client.download(matrix_id, folder / "fetched.npy")
    array: Array = np.load(folder / "fetched.npy")
    return array


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64"])
def test_an_array_comes_back_as_it_was(client: WavetrimClient, tmp_path: Path, dtype: str) -> None:
    array = make_matrix(131, 17, dtype, 0)
    matrix = client.upload(array)
    assert (matrix.shape, matrix.dtype) == ((131, 17), dtype)
    np.testing.assert_array_equal(fetch(client, matrix.id, tmp_path), array, strict=True)


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[::2, 1::3],
        lambda array: array.T,
        lambda array: array[::-1],
        np.asfortranarray,
        lambda array: array.astype(">f4"),
        lambda array: array[:1],
        lambda array: array[:, :1],
    ],
    ids=["strided", "transposed", "reversed", "columns first", "big-endian", "row", "column"],
)
def test_arrays_of_any_strides_are_uploaded(
    client: WavetrimClient, tmp_path: Path, view: Callable[[Array], Array]
) -> None:
    array = view(make_matrix(600, 700, "float32", 1))
    found = fetch(client, client.upload(array).id, tmp_path)
    np.testing.assert_array_equal(found, array)


def test_a_file_is_uploaded_as_it_is(client: WavetrimClient, tmp_path: Path) -> None:
    source = tmp_path / "A.npy"
    np.save(source, make_matrix(1200, 700, "float32", 2))
    seen: list[tuple[int, int]] = []
    matrix = client.upload(source, on_progress=lambda done, total: seen.append((done, total)))
    size = source.stat().st_size
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)
    assert len(seen) > 3
    assert client.matrix(matrix.id) == matrix
    assert client.download(matrix.id, tmp_path / "again.npy") == size
    assert (tmp_path / "again.npy").read_bytes() == source.read_bytes()


def test_an_array_needs_two_dimensions(client: WavetrimClient) -> None:
    with pytest.raises(ValueError, match="3 dimensions; it must have 2"):
        client.upload(np.zeros((2, 2, 2)))


def test_a_product_is_computed(client: WavetrimClient, tmp_path: Path) -> None:
    a, b, c = (make_matrix(*shape, "float32", 3) for shape in ((97, 65), (65, 33), (97, 33)))
    ids = [client.upload(operand).id for operand in (a, b, c)]
    job = client.submit(ids[0], ids[1], c=ids[2], alpha=0.5, beta=-2.0, verify=True)
    seen: list[float] = []
    job = client.wait(job.id, on_progress=lambda job: seen.append(job.progress))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert job.plan is not None
    assert job.plan["f"] == 97
    assert job.timings is not None
    assert job.timings["total_seconds"] > 0
    assert job.verification is not None
    assert job.verification["passed"]
    client.download_result(job.id, tmp_path / "C.npy")
    assert_product(np.load(tmp_path / "C.npy"), a, b, c, alpha=0.5, beta=-2.0)


def test_a_result_is_the_next_operand(client: WavetrimClient, tmp_path: Path) -> None:
    a = make_matrix(20, 20, "int32", 4)
    matrix = client.upload(a)
    square = client.wait(client.submit(matrix, matrix).id)
    assert square.result is not None
    cube = client.wait(client.submit(square.result, matrix).id)
    assert cube.result is not None
    np.testing.assert_array_equal(fetch(client, cube.result, tmp_path), a @ a @ a)


def test_the_same_key_posts_one_job(client: WavetrimClient) -> None:
    matrix = client.upload(make_matrix(4, 4, "float32", 5))
    first = client.submit(matrix, matrix, idempotency_key="only once")
    again = client.submit(matrix, matrix, idempotency_key="only once")
    other = client.submit(matrix, matrix)
    assert first.id == again.id != other.id


def test_refusals_carry_the_problem(client: WavetrimClient) -> None:
    a = client.upload(make_matrix(3, 4, "float32", 6))
    with pytest.raises(ServiceRefused, match=r"\(3, 4\)") as refused:
        client.submit(a, a)
    assert refused.value.status == 422
    assert refused.value.problem["type"] == "urn:wavetrim:problem:shapes"
    with pytest.raises(ServiceRefused, match="no-such-matrix") as refused:
        client.matrix("no-such-matrix")
    assert refused.value.status == 404
    with pytest.raises(ServiceRefused, match="sms is 2; it must be left out: there is no GPU"):
        client.submit(a, client.upload(make_matrix(4, 3, "float32", 7)), wishes=Wishes(sms=2))
    with pytest.raises(ServiceRefused, match="f is 9"):
        client.submit(a, client.upload(make_matrix(4, 3, "float32", 7)), wishes=Wishes(f=9))


def test_a_file_that_is_no_matrix_is_refused(client: WavetrimClient, tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("not a matrix")
    with pytest.raises(ServiceRefused) as refused:
        client.upload(tmp_path / "text.npy")
    assert refused.value.status == 400


def test_a_deleted_matrix_is_gone(client: WavetrimClient) -> None:
    matrix = client.upload(make_matrix(3, 4, "float32", 8))
    client.delete_matrix(matrix.id)
    with pytest.raises(ServiceRefused):
        client.matrix(matrix.id)


def test_a_cancelled_job_ends_the_wait(client: WavetrimClient) -> None:
    matrix = client.upload(make_matrix(SLOW, SLOW, "int64", 9))
    job = client.submit(matrix, matrix)

    def cancel_once(job: RemoteJob) -> None:
        if not job.document["cancel_requested"]:
            client.cancel(job.id)

    with pytest.raises(JobUnsuccessful, match="cancelled") as ended:
        client.wait(job.id, on_progress=cancel_once)
    assert (ended.value.job_id, ended.value.state) == (job.id, "cancelled")


def test_a_wait_can_end_before_its_job(client: WavetrimClient) -> None:
    matrix = client.upload(make_matrix(SLOW, SLOW, "int64", 10))
    job = client.submit(matrix, matrix)
    with pytest.raises(WaitTimeout, match=job.id):
        client.wait(job.id, timeout_seconds=0.05)
    assert client.wait(job.id).state == "succeeded"


def test_jobs_are_listed_in_pages(client: WavetrimClient) -> None:
    matrix = client.upload(make_matrix(4, 4, "float32", 11))
    posted = [client.wait(client.submit(matrix, matrix).id).id for _ in range(3)]
    page = client.jobs(state="succeeded", limit=2)
    assert [job.id for job in page.jobs] == posted[:0:-1]
    following = client.jobs(state="succeeded", limit=1, cursor=page.next_cursor)
    assert [job.id for job in following.jobs] == posted[:1]


def test_plans_and_devices_are_asked_for(client: WavetrimClient) -> None:
    wishes = Wishes("register", f=512)
    plan = client.plan(
        4096, 4096, 4096, dtype="float64", memory="pinned", device="H200", wishes=wishes
    )
    assert plan["memory"] == "pinned"
    assert (plan["f"], plan["gpu_rows"], plan["kernel"]) == (512, 3584, "register")
    assert plan["curve"][0]["f"] == 0
    wishes = Wishes(accuracy="float32", sms=33, f=0)
    held = client.plan(4096, 4096, 4096, device="H200", wishes=wishes)
    assert (held["accuracy"], held["sms"]) == ("float32", 33)
    assert {"devices", "presets"} <= set(client.devices())


def test_the_api_key_is_sent_and_a_full_queue_is_busy(
    start_server: Callable[..., RunningServer],
) -> None:
    guarded = start_server(api_key="a secret key", max_queued_jobs=1)
    with WavetrimClient(guarded.url) as client, pytest.raises(ServiceRefused) as refused:
        client.jobs()
    assert refused.value.status == 401
    with WavetrimClient(guarded.url, api_key="a secret key") as client:
        matrix = client.upload(make_matrix(SLOW, SLOW, "int64", 12))
        running = client.submit(matrix, matrix)
        while client.job(running.id).state == "queued":
            time.sleep(0.01)
        client.submit(matrix, matrix)
        with pytest.raises(ServiceBusy) as busy:
            client.submit(matrix, matrix)
    assert busy.value.status == 429
    assert busy.value.retry_after_seconds is not None


def test_a_wait_outlasts_a_restart(start_server: Callable[..., RunningServer]) -> None:
    restarted = start_server()
    with WavetrimClient(restarted.url) as client:
        matrix = client.upload(make_matrix(SLOW, SLOW, "int64", 13))
        job = client.submit(matrix, matrix)
        restarter: list[threading.Thread] = []

        def kill_once(job: RemoteJob) -> None:
            if not restarter and job.state == "running":
                restarted.kill()
                restarted.client.close()
                restarter.append(threading.Thread(target=restarted.restart))
                restarter[0].start()

        assert client.wait(job.id, on_progress=kill_once).state == "succeeded"
        restarter[0].join()


def test_nobody_there_is_said_so() -> None:
    url = f"http://127.0.0.1:{find_free_port()}"
    with WavetrimClient(url) as client:
        assert not client.is_ready()
        with pytest.raises(ServiceUnreachable, match=url):
            client.jobs()


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", ""])
def test_an_address_without_scheme_or_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must begin with http"):
        WavetrimClient(url)


def test_an_answer_of_something_else_is_no_service() -> None:
    with (
        answer_downloads(Content(b"<html>")) as url,
        WavetrimClient(url) as client,
        pytest.raises(ServiceUnreachable, match="not JSON"),
    ):
        client.jobs()


@dataclass
class Content:
    """What a server of one file sends, and how it fails.

    Attributes:
        data: The file.
        etag: Its entity tag; changes to `later_etag` after the first answer.
        broken_after: So many bytes are sent before the connection breaks; one entry an answer.
        digest: What Content-Digest announces.
        ranges: The Range headers that were asked for.
    """

    data: bytes
    etag: str = '"one"'
    later_etag: str = '"one"'
    broken_after: list[int] = field(default_factory=list)
    digest: bytes | None = None
    ranges: list[str | None] = field(default_factory=list)


@contextlib.contextmanager
def answer_downloads(content: Content) -> Iterator[str]:
    """A server that sends one file, whatever is asked for, and breaks connections on purpose."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers["Range"]
            etag = content.later_etag if content.ranges else content.etag
            content.ranges.append(wanted)
            begin = 0
            if wanted and self.headers["If-Range"] == etag:
                begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(content.data) - begin))
            self.send_header("ETag", etag)
            if content.digest is not None and not begin:
                self.send_header("Content-Digest", format_digest(content.digest))
            self.end_headers()
            end = begin + content.broken_after.pop(0) if content.broken_after else None
            self.wfile.write(content.data[begin:end])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_address[1]}"
        finally:
            listener.shutdown()
            thread.join()


DATA = bytes(range(256)) * 20_000


def test_a_broken_download_goes_on_where_it_broke(tmp_path: Path) -> None:
    digest = hashlib.sha256(DATA).digest()
    content = Content(DATA, broken_after=[1_500_000, 2_000_000], digest=digest)
    with answer_downloads(content) as url, WavetrimClient(url) as client:
        assert client.download("x", tmp_path / "x.npy") == len(DATA)
    assert (tmp_path / "x.npy").read_bytes() == DATA
    assert content.ranges[0] is None
    assert len(content.ranges) == 3
    assert all(wanted is not None for wanted in content.ranges[1:])


def test_a_download_of_another_content_begins_anew(tmp_path: Path) -> None:
    content = Content(DATA, later_etag='"two"', broken_after=[3_000_000])
    with answer_downloads(content) as url, WavetrimClient(url) as client:
        client.download("x", tmp_path / "x.npy")
    assert (tmp_path / "x.npy").read_bytes() == DATA
    assert content.ranges[1] is not None


def test_a_download_that_breaks_for_good_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("old")
    content = Content(DATA, broken_after=[1_500_000, 0, 0, 0, 0])
    with (
        answer_downloads(content) as url,
        WavetrimClient(url) as client,
        pytest.raises(ServiceUnreachable),
    ):
        client.download("x", tmp_path / "x.npy")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_download_with_a_wrong_digest_is_not_kept(tmp_path: Path) -> None:
    content = Content(DATA, digest=bytes(32))
    with (
        answer_downloads(content) as url,
        WavetrimClient(url) as client,
        pytest.raises(DownloadCorrupted, match="digest"),
    ):
        client.download("x", tmp_path / "x.npy")
    assert list(tmp_path.iterdir()) == []
