"""Downloads over HTTP: whole, in part, and while the matrix is removed."""

import numpy as np
import pytest

from tests.refusals import expect_refusal
from tests.server import decode_npy, encode_npy, open_http

ARRAY = np.arange(35, dtype=np.float32).reshape(5, 7)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-5", (0, 6)),
        ("bytes=130-", (130, 268)),
        ("bytes=-8", (260, 268)),
        ("bytes=5-5", (5, 6)),
        ("bytes=260-999", (260, 268)),
    ],
)
def test_a_range_is_sent(shared_server, asked, expected):
    path = f"/v1/matrices/{shared_server.upload(ARRAY)}/data"
    begin, end = expected
    response = shared_server.client.get(path, headers={"Range": asked})
    assert response.status_code == 206
    assert response.content == encode_npy(ARRAY)[begin:end]
    assert response.headers["content-range"] == f"bytes {begin}-{end - 1}/268"
    assert response.headers["content-length"] == str(end - begin)


@pytest.mark.parametrize("asked", ["bytes=268-", "bytes=268-270", "bytes=-0"])
def test_a_range_after_the_end_is_refused(shared_server, asked):
    path = f"/v1/matrices/{shared_server.upload(ARRAY)}/data"
    behind = shared_server.client.get(path, headers={"Range": asked})
    expect_refusal(behind, 416, "Range")
    assert behind.headers["content-range"] == "bytes */268"


def test_other_units_several_ranges_and_nonsense_mean_the_whole_file(shared_server):
    path = f"/v1/matrices/{shared_server.upload(ARRAY)}/data"
    for asked in ("", "bytes", "bytes=-", "bytes=5-2", "rows=1-2", "bytes=0-1,3-4", "bytes=a-b"):
        whole = shared_server.client.get(path, headers={"Range": asked})
        assert (whole.status_code, whole.content) == (200, encode_npy(ARRAY)), asked


def test_conditional_requests(shared_server):
    path = f"/v1/matrices/{shared_server.upload(ARRAY)}/data"
    etag = shared_server.client.get(path).headers["etag"]
    assert etag.startswith('"')
    for tags in (etag, f'"other", W/{etag}', "*"):
        assert shared_server.client.get(path, headers={"If-None-Match": tags}).status_code == 304
    assert shared_server.client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    wanted = {"Range": "bytes=0-5"}
    assert shared_server.client.get(path, headers={**wanted, "If-Range": etag}).status_code == 206
    for other in ('"other"', f"W/{etag}", "Sat, 21 Nov 2026 00:00:00 GMT"):
        assert (
            shared_server.client.get(path, headers={**wanted, "If-Range": other}).status_code == 200
        )


def test_if_match_is_a_condition_of_every_call_that_has_the_etag(shared_server):
    matrix_id = shared_server.upload(ARRAY)
    calls = [("GET", "/data"), ("HEAD", "/data"), ("DELETE", "")]

    def ask(method, path, *tags, **more):
        fields = [("If-Match", one) for one in tags] + [*more.items()]
        url = f"/v1/matrices/{matrix_id}{path}"
        return shared_server.client.request(method, url, headers=fields)

    etag = ask("HEAD", "/data").headers["etag"]
    for method, path in calls:
        for tags in ('"other"', f"W/{etag}", f'"a, b", W/{etag}', '"a,*,b"', etag.strip('"'), ""):
            refused = ask(method, path, tags, Range="bytes=999999-")
            assert refused.status_code == 412, (method, tags)
            if method != "HEAD":
                expect_refusal(refused, 412, "If-Match", value=tags, limit=etag)
    known = {"If-None-Match": etag}
    assert ask("GET", "/data", '"other"', **known).status_code == 412
    assert ask("GET", "/data", etag, **known).status_code == 304
    for tags in ((etag,), ("*",), (f'"other" ,{etag}',), ('"other"', etag)):
        for method, path in calls[:2]:
            assert ask(method, path, *tags).status_code == 200, tags
    assert ask("DELETE", "", '"other"', etag).status_code == 204
    for method, path in calls:
        assert ask(method, path, "*").status_code == 404


def test_head_tells_what_get_would_send(shared_server):
    path = f"/v1/matrices/{shared_server.upload(ARRAY)}/data"
    head, get = shared_server.client.head(path), shared_server.client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "accept-ranges", "content-length", "content-type"):
        assert head.headers[name] == get.headers[name]


def test_deleting_a_matrix_does_not_disturb_its_download(shared_server):
    array = np.random.default_rng(5).random((2000, 1500))
    matrix_id = shared_server.upload(array)
    with shared_server.client.stream("GET", f"/v1/matrices/{matrix_id}/data") as response:
        chunks = response.iter_raw(65536)
        received = next(chunks)
        with open_http(shared_server.url) as other:
            assert other.delete(f"/v1/matrices/{matrix_id}").status_code == 204
            assert other.get(f"/v1/matrices/{matrix_id}").status_code == 404
        received += b"".join(chunks)
    np.testing.assert_array_equal(decode_npy(received), array)


def test_unknown_ids_are_not_found(shared_server):
    for method, path in (("GET", ""), ("GET", "/data"), ("DELETE", "")):
        refused = shared_server.client.request(method, f"/v1/matrices/none{path}")
        assert expect_refusal(refused, 404)["value"] == "none"
