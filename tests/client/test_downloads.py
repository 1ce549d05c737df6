"""Downloads over connections that break, of contents that change, with wrong digests."""

import hashlib
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.client.scripted_server import answer, serve_script
from tests.server import encode_npy
from wavetrim.client import DownloadCorrupted, ServiceUnreachable

DATA = bytes(range(256)) * 20_000
ARRAY = np.arange(600_000.0).reshape(600, 1000)
OBJECTS = encode_npy(np.zeros(1)).replace(b"<f8'", b"|O' ")


@dataclass
class Content:
    """Answers with a file, as a reply of `serve_script`, and fails on purpose.

    Attributes:
        data: The file.
        etag: Its entity tag; changes to `later_etag` after the first answer.
        broken_after: For each answer, bytes that are sent before the connection breaks.
        digest: The digest that Content-Digest announces.
        end: Where a rest ends; None for the end of the file.
        ranges: The Range headers of requests so far.
    """

    data: bytes
    etag: str = '"one"'
    later_etag: str = '"one"'
    broken_after: list[int] = field(default_factory=list)
    digest: bytes | None = None
    end: int | None = None
    ranges: list[str | None] = field(default_factory=list)

    def __call__(self, request):
        wanted = request.headers.get("range")
        etag = self.later_etag if self.ranges else self.etag
        self.ranges.append(wanted)
        begin = 0
        if wanted and request.headers["if-range"] == etag:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
        headers = {"ETag": etag}
        if self.digest is not None and not begin:
            headers["Content-Digest"] = f"sha-256=:{b64encode(self.digest).decode()}:"
        if begin and self.end is not None:
            return answer(self.data[begin : self.end], 206, **headers)
        whole = answer(self.data[begin:], 206 if begin else 200, **headers)
        if not self.broken_after:
            return whole
        return whole[: len(whole) - len(self.data) + begin + self.broken_after.pop(0)]


def test_a_broken_download_resumes_where_it_broke(connect, tmp_path):
    digest = hashlib.sha256(DATA).digest()
    content = Content(DATA, broken_after=[1_500_000, 2_000_000], digest=digest)
    with serve_script([content]) as url:
        assert connect(url).download("x", tmp_path / "x.npy") == len(DATA)
    assert (tmp_path / "x.npy").read_bytes() == DATA
    assert content.ranges[0] is None
    assert len(content.ranges) == 3
    assert all(wanted is not None for wanted in content.ranges[1:])


def test_a_broken_get_is_repeated_into_the_same_array(connect):
    content = Content(encode_npy(ARRAY), broken_after=[1_500_000, 50, 128])
    out = np.zeros_like(ARRAY)
    with serve_script([content]) as url:
        assert connect(url).get("x", out=out) is out
    np.testing.assert_array_equal(out, ARRAY)
    assert len(content.ranges) == 4


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((2, 2)), r"out has the shape \(2, 2\); it must have \(600, 1000\)"),
        (np.zeros((600, 1000), "f4"), "out has the dtype float32; it must have float64"),
        (np.zeros((600, 1000), ">f8"), "out has the dtype >f8; it must have float64"),
    ],
)
def test_an_array_that_does_not_fit_is_refused_before_elements_arrive(connect, out, message):
    content = Content(encode_npy(ARRAY), broken_after=[200])  # some elements follow the head
    with serve_script([content]) as url, pytest.raises(ValueError, match=message):
        connect(url).get("x", out=out)
    assert len(content.ranges) == 1


def test_a_download_of_changed_content_starts_again(connect, tmp_path):
    content = Content(DATA, later_etag='"two"', broken_after=[3_000_000])
    with serve_script([content]) as url:
        connect(url).download("x", tmp_path / "x.npy")
    assert (tmp_path / "x.npy").read_bytes() == DATA
    assert content.ranges[1] is not None


def test_a_failed_download_leaves_the_old_file(connect, tmp_path):
    (tmp_path / "x.npy").write_text("old")
    content = Content(DATA, broken_after=[1_500_000, 1000, 0])
    with serve_script([content]) as url, pytest.raises(ServiceUnreachable):
        connect(url, retries=0).download("x", tmp_path / "x.npy")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("digest", [bytes(32), b"short"])
def test_a_download_with_a_wrong_digest_is_not_kept(connect, tmp_path, digest):
    with (
        serve_script([Content(DATA, digest=digest)]) as url,
        pytest.raises(DownloadCorrupted, match="digest"),
    ):
        connect(url).download("x", tmp_path / "x.npy")
    assert list(tmp_path.iterdir()) == []


def test_a_rest_that_ends_before_the_file_is_not_kept(connect, tmp_path):
    content = Content(DATA, broken_after=[3_000_000], end=4_000_000)
    with (
        serve_script([content]) as url,
        pytest.raises(DownloadCorrupted, match=f"4000000 bytes have arrived of {len(DATA)}"),
    ):
        connect(url).download("x", tmp_path / "x.npy")
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_target_file_are_raised(connect, tmp_path):
    with serve_script([Content(DATA)]) as url:
        client = connect(url)
        with pytest.raises(FileNotFoundError):
            client.download("x", tmp_path / "missing" / "x.npy")
        with pytest.raises(FileExistsError, match="not an ordinary file"):
            client.download("x", tmp_path)
        assert not url.requests
        with pytest.raises(OSError, match="No space left"):
            client.download("x", "/dev/shm/x.npy", on_progress=_fill)
    assert not Path("/dev/shm/x.npy").exists()


def _fill(done, total):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<html>nothing</html>", "no .npy file"),
        (encode_npy(ARRAY)[:-8], "8 bytes are missing at its end"),
        (encode_npy(ARRAY)[:50], "no .npy file: it ends after"),
        (b"", "no .npy file: it ends after 0"),
        (encode_npy(ARRAY) + b"more", "more bytes have arrived than its head says"),
        (OBJECTS, "no .npy file: dtype is object"),
        (b"\x93NUMPY\x01\x00\xff\xff" + bytes(70000), "no .npy file: Header info length"),
        (b"\x93NUMPY\x07\x00" + bytes(100), "no .npy file"),
    ],
)
def test_malformed_npy_answers_are_refused(connect, data, message):
    with serve_script([answer(data, Connection="close")]) as url:
        client = connect(url, retries=0)
        for call in (lambda: client.get("x"), lambda: client.matmul(np.eye(2), np.eye(2))):
            with pytest.raises(DownloadCorrupted, match=message):
                call()


def test_answers_in_chunks_and_without_a_length_are_read(connect):
    data = encode_npy(ARRAY)
    pieces = [data[:100], data[100:5000], data[5000:]]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    bare = b"HTTP/1.0 200 OK\r\n\r\n" + data
    for reply, close in ((head + chunks, False), (bare, True)):
        with serve_script([reply], close=close) as url:
            client = connect(url)
            for _ in range(2):
                np.testing.assert_array_equal(client.get("x"), ARRAY)
