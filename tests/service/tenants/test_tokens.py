"""Callers by tokens of an issuer: which are taken, and what becomes of the issuer's keys."""

import hmac
import json
import sys

import jwt
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.server import NPY, RunningServer, encode_npy
from tests.service.tenants.issuer import AUDIENCE, ISSUER, MAKERS, Issuer, forge, make_claims, serve
from tests.service.tenants.tenants import manage_keys, open_caller, store
from wavetrim.service.app import check_exposure
from wavetrim.service.errors import SettingRefused
from wavetrim.service.settings import Settings
from wavetrim.service.tenants.tokens import make_tokens

SETTINGS = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}


@pytest.fixture(scope="module")
def issuer():
    return Issuer(**{algorithm: algorithm for algorithm in MAKERS})


@pytest.fixture(scope="module")
def server(tmp_path_factory, issuer):
    with serve(issuer) as url:
        folder = tmp_path_factory.mktemp("tokens") / "data"
        with RunningServer(folder, **SETTINGS, jwt_jwks=url) as running:
            yield running


def ask(server, token, method="GET"):
    headers = {"Authorization": f"Bearer {token}", **NPY}
    content = encode_npy(np.ones((2, 2))) if method == "POST" else b""
    answer = server.client.request(method, "/v1/matrices", headers=headers, content=content)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("algorithm", MAKERS)
def test_a_token_says_who_calls_and_what_it_may_do(server, issuer, algorithm):
    caller = open_caller(server, issuer.sign(algorithm, sub=f"ada/{algorithm}"))
    assert caller.get("/v1/me").json()["name"] == f"jwt:ada/{algorithm}"
    assert caller.get("/v1/me").json()["scopes"] == ["read", "compute"]
    assert store(caller)["owner"] == f"jwt:ada/{algorithm}"
    caller.close()


def test_scopes_are_the_tokens(server, issuer):
    assert ask(server, issuer.sign("ES256", scope="openid read"))[0] == 200
    assert ask(server, issuer.sign("ES256", scope="openid read"), "POST")[0] == 403
    for scope in (None, "", "reads", "READ", "wavetrim.read"):
        assert ask(server, issuer.sign("ES256", scope=scope))[0] == 403
    assert ask(server, issuer.sign("ES256", sub="bob"), "POST")[0] == 201
    admin = ask(server, issuer.sign("ES256", scope="admin"))[1]["matrices"]
    assert {one["owner"] for one in admin} >= {"jwt:bob"}


def test_a_token_may_be_good_for_longer_than_numbers_are_large(server, issuer):
    assert ask(server, issuer.sign("ES256", exp=10**400))[0] == 200


def test_a_subject_is_no_name_of_a_key(server, issuer):
    with_key = open_caller(server, manage_keys(server, "add", "ada"))
    with_token = open_caller(server, issuer.sign("ES256", sub="ada"))
    assert store(with_token)["owner"] == "jwt:ada"
    assert store(with_key)["owner"] == "ada"
    assert {one["owner"] for one in with_key.get("/v1/matrices").json()["matrices"]} == {"ada"}
    assert with_key.get("/v1/me").json()["name"] == "ada"
    with_key.close(), with_token.close()


WRONG_CLAIMS = [
    {"exp": 1}, {"exp": None}, {"exp": "soon"}, {"exp": True}, {"exp": float("inf")},
    {"exp": "99999999999"}, {"exp": "1e999"}, {"nbf": "1"}, {"iat": True},
    {"nbf": 2**40}, {"iat": 2**40},
    {"iss": "https://other.example/"}, {"iss": None}, {"iss": ISSUER.rstrip("/")},
    {"aud": "other"}, {"aud": None}, {"aud": []}, {"aud": {AUDIENCE: 1}},
    {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": "a\nb"}, {"sub": "é"}, {"sub": "a" * 256},
    {"scope": ["read"]},
]  # fmt: skip


@pytest.mark.parametrize("claims", WRONG_CLAIMS, ids=lambda claims: str(claims)[:30])
def test_claims_that_are_not_right_are_refused(server, issuer, claims):
    # Signed by hand, since the library refuses to write some of them.
    header, sent = {"alg": "ES256", "kid": "ES256"}, make_claims(**claims)
    signed = forge(header, sent).rpartition(".")[0].encode()
    signature = jwt.get_algorithm_by_name("ES256").sign(signed, issuer.keys["ES256"][1])
    status, problem = ask(server, forge(header, sent, signature))
    assert (status, problem["title"]) == (401, "API key needed")


def list_forgeries(issuer):
    """Tokens that nobody may take, by what is wrong with them."""
    public = issuer.keys["RS256"][1].public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    claims, right = make_claims(scope="admin"), issuer.sign("RS256")
    head, body, signature = right.split(".")
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forgeries = {
        f"alg {name!r}": forge({"alg": name, "kid": "RS256"}, claims)
        for name in ("none", "None", "", None, ["RS256"], 7, "HS256", "RS1", "ES256K")
    }
    for name, secret in (("PEM", pem), ("DER", der), ("JWK", b"{}")):
        for kid in ("RS256", None):
            unsigned = forge({"alg": "HS256", "kid": kid}, claims).rpartition(".")[0]
            mac = hmac.digest(secret, unsigned.encode(), "sha256")
            forgeries[f"HS256 by {name}, {kid}"] = forge({"alg": "HS256", "kid": kid}, claims, mac)
    forgeries |= {
        "another's key": jwt.encode(claims, other, "RS256", headers={"kid": "RS256"}),
        "a key in the header": jwt.encode(
            claims, other, "RS256",
            headers={"jwk": json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(other.public_key()))},
        ),
        "a URL in the header": jwt.encode(
            claims, other, "RS256", headers={"jku": "http://127.0.0.1:9/", "kid": "x"}
        ),
        "no kid": jwt.encode(claims, issuer.keys["RS256"][1], "RS256"),
        "a kid that is no text": forge({"alg": "RS256", "kid": 7}, claims),
        "the algorithm of another key": issuer.sign("RS256", headers={"kid": "ES256"}),
        "an unknown critical field": issuer.sign("RS256", headers={"crit": ["x"], "x": 1}),
        "other claims": f"{head}.{forge({}, claims).split('.')[1]}.{signature}",
        "no signature": f"{head}.{body}.",
        "half a signature": right[:-50],
        "no parts": "..",
        "no JSON": "a.b.c",
        "JSON without bottom": forge({}, claims).replace("e30", "W1tb" * 9000),
    }  # fmt: skip
    return forgeries


def test_forgeries_are_refused(server, issuer):
    for what, token in list_forgeries(issuer).items():
        assert ask(server, token)[0] == 401, what
        assert ask(server, token, "POST")[0] == 401, what
    assert ask(server, issuer.sign("RS256"))[0] == 200
    log = server.read_log()
    assert "incident" not in log
    assert issuer.sign("RS256").split(".")[0] not in log


def test_without_a_token_or_a_key_nobody_calls(server):
    assert server.client.get("/v1/matrices").status_code == 401
    assert server.client.get("/v1/matrices", headers={"Host": "a.example"}).status_code == 401


def test_an_issuer_needs_pyjwt_and_lets_a_service_listen_on_a_network(monkeypatch):
    settings = Settings(host="0.0.0.0", **SETTINGS, jwt_jwks="https://issuer.example/")
    check_exposure(settings)
    assert make_tokens(settings) is not None
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(SettingRefused, match=r"wavetrim\[jwt\]"):
        make_tokens(settings)
