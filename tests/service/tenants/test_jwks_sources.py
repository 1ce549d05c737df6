"""Where an issuer's keys are read: past proxies, never from a pipe; and what the log tells."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.command import run_command
from tests.service.tenants.issuer import AUDIENCE, ISSUER, Issuer, serve
from wavetrim.service.errors import SettingRefused
from wavetrim.service.tenants.issuer_keys import IssuerKeys
from wavetrim.service.tenants.jwks import JwksRefused, JwksSource


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
    done = run_command("serve", "--port", "0", folder=tmp_path, **variables)
    assert done.returncode == 2
    assert "jwt_jwks" in done.stderr


def test_the_log_has_no_query_of_the_url(caplog):
    async def read(place):
        keys = IssuerKeys(JwksSource(place))
        await keys.start()
        await keys.stop()

    asyncio.run(read("http://127.0.0.1:9/jwks.json?code=secret#secret"))
    asyncio.run(read("http://127.0.0.1:9/jwks.json?a secret"))
    assert "(WAVETRIM_JWT_JWKS, http://127.0.0.1:9/jwks.json)" in caplog.text
    assert "secret" not in caplog.text


def test_a_url_with_a_user_is_refused_without_its_password():
    for place in ("https://user:secret@issuer.example/", "http://a:secret@[x/?secret"):
        with pytest.raises(SettingRefused, match="jwt_jwks") as refused:
            JwksSource(place)
        assert "secret" not in str(refused.value)
    with pytest.raises(JwksRefused) as unread:
        JwksSource("http://localhost:secret/").read()
    assert "secret" not in str(unread.value)
