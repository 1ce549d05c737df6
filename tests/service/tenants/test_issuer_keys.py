"""The keys of an issuer: where they are read, and what becomes of those that change."""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from tests.command import expect_refused
from tests.limit import allow
from tests.service.tenants.issuer import AUDIENCE, ISSUER, Issuer, serve
from wavetrim.service.errors import IssuerAway, SettingRefused, Unauthorized
from wavetrim.service.tenants.issuer_keys import IssuerKeys
from wavetrim.service.tenants.jwks import JwksRefused, JwksSource, parse_jwks
from wavetrim.service.tenants.tokens import Tokens


def read_with(url, work, *, pause_seconds=0.0):
    async def run():
        keys = IssuerKeys(JwksSource(url), pause_seconds=pause_seconds)
        tokens = Tokens(ISSUER, AUDIENCE, keys)
        async with keys.watch():
            return await work(tokens, keys)

    return asyncio.run(run())


def test_a_new_key_is_taken_and_one_that_was_withdrawn_is_not_any_more():
    issuer = Issuer(first="ES256")

    async def rotate(tokens, keys):
        old = issuer.sign("first")
        assert (await tokens.read(old)).name == "jwt:ada"
        issuer.keys.clear()
        issuer.add("second", "EdDSA")
        assert (await tokens.read(old)).name == "jwt:ada"
        assert (await tokens.read(issuer.sign("second"))).name == "jwt:ada"
        with pytest.raises(Unauthorized):  # though it was verified before
            await tokens.read(old)

    with serve(issuer) as url:
        read_with(url, rotate)


def test_many_tokens_of_unknown_keys_have_the_issuer_asked_once():
    issuer = Issuer(known="ES256")

    async def flood(tokens, keys):
        issuer.reads = 0
        unknown = [issuer.sign("known", headers={"kid": str(n)}) for n in range(50)]
        await asyncio.sleep(1.1)
        return await asyncio.gather(*map(tokens.read, unknown), return_exceptions=True)

    with serve(issuer) as url:
        answers = read_with(url, flood, pause_seconds=1.0)
        assert {type(one) for one in answers} == {Unauthorized}
        assert issuer.reads == 1


@pytest.mark.parametrize("fault", ["gone", "error", "redirect", "slow", "empty"])
def test_an_issuer_that_cannot_be_read_is_told_of_and_asked_again(fault, caplog, monkeypatch):
    if fault == "slow":
        monkeypatch.setattr("wavetrim.service.tenants.jwks._READ_SECONDS", 0.5)
    issuer = Issuer(key="ES256")
    token = issuer.sign("key")
    issuer.is_slow = fault == "slow"
    issuer.status = {"error": 500, "redirect": 302}.get(fault, 200)
    if fault == "empty":
        keys, issuer.keys = issuer.keys, {}

    async def read_while_away(tokens, keys):
        began = time.monotonic()
        with pytest.raises(IssuerAway, match="cannot be read"):
            await tokens.read(token)
        assert time.monotonic() - began < allow(8)

    async def read_after(tokens, found):
        with pytest.raises(IssuerAway):
            await tokens.read(token)
        issuer.status, issuer.is_slow = 200, False
        if fault == "empty":
            issuer.keys = keys
        return (await tokens.read(token)).name

    with serve(issuer) as url:
        if fault == "gone":
            read_with("http://127.0.0.1:9/", read_while_away)
        elif fault == "slow":
            read_with(url, read_while_away, pause_seconds=20)
        else:
            assert read_with(url, read_after) == "jwt:ada"
    assert "WAVETRIM_JWT_JWKS" in caplog.text
    assert "cannot be read" in caplog.text


def test_keys_outlast_an_issuer_that_has_gone():
    issuer = Issuer(key="ES256")

    async def read(tokens, keys):
        issuer.status = 500
        with pytest.raises(IssuerAway):  # it may have the key
            await tokens.read(issuer.sign("key", headers={"kid": "new"}))
        return (await tokens.read(issuer.sign("key"))).name

    with serve(issuer) as url:
        assert read_with(url, read) == "jwt:ada"


def test_a_file_has_the_keys_as_well(tmp_path):
    issuer = Issuer(key="RS256")
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(issuer.describe()))

    async def read(tokens, keys):
        return (await tokens.read(issuer.sign("key"))).name

    assert read_with(str(path), read) == "jwt:ada"
    for place in (str(tmp_path / "none.json"), "~no-such-user/jwks.json"):
        with pytest.raises(SettingRefused, match="jwt_jwks"):
            read_with(place, read)


def test_keys_that_are_not_for_verifying_are_passed_over():
    ec, rsa_key = Issuer(ES256="ES256", RS256="RS256").describe()["keys"]
    (kept,) = parse_jwks(json.dumps({"keys": [
        {**ec, "kid": "right"},
        {**ec, "use": "enc"}, {**ec, "key_ops": ["sign"]}, {**ec, "d": "AQAB"},
        {**ec, "alg": "HS256"}, {**ec, "crv": "P-384"}, {**ec, "crv": "secp256k1"},
        {**ec, "x": "AA"}, {**ec, "x": 7}, {**ec, "kid": 7}, {**rsa_key, "n": "AQAB"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}, {"kty": "new"}, {}, None, 7,
    ]}).encode())  # fmt: skip
    assert (kept.kid, kept.algorithms) == ("right", {"ES256"})
    for content in (b"", b"[]", b'{"keys": 1}', b'{"keys": []}', b"[" * 10**5, b" " * 2**21):
        with pytest.raises(JwksRefused):
            parse_jwks(content)


@pytest.mark.parametrize(
    "place",
    [
        *("http://issuer.example/", "ftp://127.0.0.1/", "file:///etc/x"),
        *("http://127.0.0.1.example/", "https://[no-address/"),
        *("https://user:secret@issuer.example/", "http://a:secret@[x/?secret"),
    ],
)
def test_keys_do_not_come_by_a_way_on_which_others_could_send_theirs(place):
    with pytest.raises(SettingRefused, match="jwt_jwks") as refused:
        JwksSource(place)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("missing", "given"),
    [("jwt_jwks", ("jwt_issuer", "jwt_audience")), ("jwt_issuer", ("jwt_jwks", "jwt_audience"))],
)
def test_an_issuer_is_named_whole_or_not_at_all(tmp_path, missing, given):
    variables = {f"WAVETRIM_{name.upper()}": "https://issuer.example/" for name in given}
    expect_refused("serve", "--port", "0", folder=tmp_path, says=missing, **variables)


def test_a_proxy_cannot_answer_for_this_machine(monkeypatch):
    proxy = Issuer(evil="ES256")
    with serve(Issuer(right="ES256")) as url, serve(proxy) as proxy_url:
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy_url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        (key,) = JwksSource(url).read()
    assert (key.kid, proxy.reads) == ("right", 0)


def test_a_pipe_is_refused_and_a_link_to_a_file_is_not(tmp_path):
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "file"))
    os.mkfifo(pipe)
    file.write_text(json.dumps(Issuer(key="ES256").describe()))
    link.symlink_to(file)
    (key,) = JwksSource(str(link)).read()
    assert key.kid == "key"
    for place in (pipe, Path("/dev/null"), tmp_path):
        with pytest.raises(OSError, match=r"regular file|directory"):
            JwksSource(str(place)).read()
    settings = {"ISSUER": ISSUER, "AUDIENCE": AUDIENCE, "JWKS": str(pipe)}
    variables = {f"WAVETRIM_JWT_{name}": value for name, value in settings.items()}
    expect_refused("serve", "--port", "0", folder=tmp_path, says="jwt_jwks", **variables)


def test_the_log_has_no_query_of_the_url(caplog):
    async def read(place):
        keys = IssuerKeys(JwksSource(place))
        async with keys.watch():
            pass

    asyncio.run(read("http://127.0.0.1:9/jwks.json?code=secret#secret"))
    asyncio.run(read("http://127.0.0.1:9/jwks.json?a secret"))
    assert "(WAVETRIM_JWT_JWKS, http://127.0.0.1:9/jwks.json)" in caplog.text
    assert "secret" not in caplog.text


def test_a_place_that_cannot_be_read_is_told_without_what_is_secret():
    with pytest.raises(JwksRefused) as unread:
        JwksSource("http://localhost:secret/").read()
    assert "secret" not in str(unread.value)
