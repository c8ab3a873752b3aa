"""TLS and tokens, against a scripted server with a self-signed certificate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from scripted import Certificate, ScriptedServer, error, ok

from lease_broker import Client, Credentials, LeaseBrokerError, plaintext, tls, v1
from lease_broker.addresses import is_loopback
from lease_broker.calls import Caller
from lease_broker.credentials import Token, TokenSource
from lease_broker.transport import Transport

KEYS = ok(v1.EnqueueResponse(results=[v1.EnqueueResult(key="1")]))


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """The server's certificate."""
    return Certificate("broker.example", "127.0.0.1")


@pytest.fixture(scope="module")
def identity() -> Certificate:
    """The client's certificate."""
    return Certificate("worker.example")


@pytest.fixture
def tls_server(certificate: Certificate) -> Iterator[ScriptedServer]:
    """A server with TLS."""
    server = ScriptedServer(grpc.ssl_server_credentials([(certificate.key, certificate.certificate)]))
    server.answer("Enqueue", KEYS)
    yield server
    server.close()


def enqueue(server: ScriptedServer, credentials: Credentials, token: str | None = None) -> None:
    """Sends a request once."""
    transport = Transport(server.address, credentials)
    caller = Caller(transport, None if token is None else Token(token))
    try:
        caller.call("Enqueue", v1.EnqueueRequest(queue="work", items=[v1.NewItem()]), gives_up=lambda _failure: True)
    finally:
        transport.close()


def test_tls_with_the_authority_of_the_server(tls_server: ScriptedServer, certificate: Certificate) -> None:
    enqueue(tls_server, tls(ca=certificate.certificate), token="secret")
    assert tls_server.headers[0]["authorization"] == "Bearer secret"


def test_tls_refuses_an_unknown_authority(tls_server: ScriptedServer, identity: Certificate) -> None:
    with pytest.raises(LeaseBrokerError, match="UNAVAILABLE"):
        enqueue(tls_server, tls(ca=identity.certificate))
    assert not tls_server.headers


def test_tls_checks_the_server_name(tls_server: ScriptedServer, certificate: Certificate) -> None:
    enqueue(tls_server, tls(ca=certificate.certificate, server_name="broker.example"))
    with pytest.raises(LeaseBrokerError, match="UNAVAILABLE"):
        enqueue(tls_server, tls(ca=certificate.certificate, server_name="other.example"))


def test_plaintext_does_not_reach_a_server_with_tls(tls_server: ScriptedServer) -> None:
    with pytest.raises(LeaseBrokerError, match="UNAVAILABLE"):
        enqueue(tls_server, plaintext())
    assert not tls_server.headers


def test_client_certificate_is_presented(certificate: Certificate, identity: Certificate) -> None:
    server = ScriptedServer(
        grpc.ssl_server_credentials(
            [(certificate.key, certificate.certificate)], identity.certificate, require_client_auth=True
        )
    )
    server.answer("Enqueue", KEYS)
    try:
        enqueue(server, tls(certificate.certificate, identity.certificate, identity.key))
        with pytest.raises(LeaseBrokerError, match="UNAVAILABLE"):
            enqueue(server, tls(certificate.certificate))
    finally:
        server.close()
    assert len(server.headers) == 1


def test_malformed_certificates_do_not_replace_the_old_ones(
    tmp_path: Path, certificate: Certificate, identity: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    files = tmp_path / "ca", tmp_path / "cert", tmp_path / "key"
    good = [certificate.certificate, identity.certificate, identity.key]
    for file, text in zip(files, good, strict=True):
        file.write_bytes(text)
    transport = Transport("127.0.0.1:1", tls(*files))
    connection = transport.route()
    ca, cert, key = good
    for number, texts in enumerate(
        [
            (b"", cert, key),
            (ca[:200], cert, key),
            (ca + ca[:200], cert, key),
            (ca.replace(b"M", b"!"), cert, key),
            (ca, cert, key[:-30]),
            # The certificate was replaced, and the key will be.
            (ca, certificate.certificate, key),
        ],
        1,
    ):
        for file, text in zip(files, texts, strict=True):
            file.write_bytes(text)
        with pytest.raises(ValueError, match="credentials: "):
            tls(*files)
        for _ in range(2):
            transport._look_at_files(0.0)
        assert transport.route() is connection
        assert len(caplog.records) == number
    for file, text in zip(files, good, strict=True):
        file.write_bytes(text)
    transport._look_at_files(0.0)
    assert transport.route() is not connection
    transport.close()


def test_token_file_is_read_again_when_a_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    server = ScriptedServer()
    server.answer("Enqueue", KEYS, error(grpc.StatusCode.UNAUTHENTICATED), KEYS)
    try:
        with Client(server.address, token=file) as client:
            client.enqueue("work", [{}])
            file.write_text("new\n")
            client.enqueue("work", [{}])
    finally:
        server.close()
    assert [headers["authorization"] for headers in server.headers] == ["Bearer old", "Bearer old", "Bearer new"]


def test_token_function_is_called_for_each_attempt() -> None:
    tokens = iter(["first", "second"])
    server = ScriptedServer()
    server.answer("Enqueue", error(grpc.StatusCode.UNAUTHENTICATED), KEYS)
    try:
        with Client(server.address, token=lambda: next(tokens)) as client:
            client.enqueue("work", [{}])
    finally:
        server.close()
    assert [headers["authorization"] for headers in server.headers] == ["Bearer first", "Bearer second"]


def test_token_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    texts = iter(["", "good"])

    def token() -> str:
        text = next(texts)
        if not text:
            raise OSError("the identity service is down")
        return text

    server = ScriptedServer()
    server.answer("Enqueue", KEYS)
    try:
        with Client(server.address, token=token) as client:
            client.enqueue("work", [{}])
        with (
            Client(server.address, token=tmp_path / "missing", timeout=0.3) as client,
            pytest.raises(LeaseBrokerError, match=r"no token: the file .*/missing: FileNotFoundError"),
        ):
            client.enqueue("work", [{}])
    finally:
        server.close()
    assert [headers["authorization"] for headers in server.headers] == ["Bearer good"]


def test_error_of_a_token_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "two lines").write_text("sec\nret")
    os.mkfifo(tmp_path / "fifo")
    for name, text in (
        ("missing", "No such file or directory"),
        (".", "it is not a regular file"),
        ("fifo", "it is not a regular file"),
        ("empty", "it is empty"),
        ("binary", "codec can't decode byte 0xff"),
        ("two lines", "the token has a character"),
    ):
        with (
            Client("127.0.0.1:1", token=tmp_path / name, timeout=0.1) as client,
            pytest.raises(LeaseBrokerError) as failed,
        ):
            client.wake("work")
        assert f"the file {tmp_path / name}: " in str(failed.value)
        assert text in str(failed.value)
        assert "ret" not in str(failed.value)


@pytest.mark.parametrize("kind", ["text", "file", "function"])
def test_space_around_a_token_is_not_sent(tmp_path: Path, kind: str) -> None:
    (tmp_path / "token").write_text(" secret\r\n")
    sources: dict[str, TokenSource] = {
        "text": " secret\r\n",
        "file": tmp_path / "token",
        "function": lambda: " secret\r\n",
    }
    server = ScriptedServer()
    server.answer("Enqueue", KEYS)
    try:
        with Client(server.address, token=sources[kind]) as client:
            client.enqueue("work", [{}])
    finally:
        server.close()
    assert server.headers[0]["authorization"] == "Bearer secret"


@pytest.mark.parametrize("token", ["sec\nret", "sec\x00ret", "secr\u00e9t", "sec\x7fret"])
def test_text_with_an_illegal_character_is_no_token(token: str) -> None:
    with pytest.raises(ValueError, match="the token has a character") as failed:
        Client("127.0.0.1:1", token=token)
    assert "ret" not in str(failed.value)


@pytest.mark.parametrize(
    ("token", "text"), [("sec\nret", "the token has a character"), (b"secret", "bytes and not a str")]
)
def test_illegal_token_of_a_function_is_asked_for_once_more(token: Any, text: str) -> None:
    calls: list[None] = []

    def source() -> Any:
        calls.append(None)
        return token

    with Client("127.0.0.1:1", token=source) as client, pytest.raises(LeaseBrokerError, match=text) as failed:
        client.wake("work")
    assert failed.value.code == "UNAUTHENTICATED"
    assert failed.value.applied == "no"
    assert "ret" not in str(failed.value)
    assert len(calls) == 2


def test_source_that_is_no_token_is_refused() -> None:
    with pytest.raises(TypeError, match="token is bytes"):
        Client("127.0.0.1:1", token=b"secret")  # type: ignore[arg-type]


def test_second_refusal_of_a_token_is_an_error() -> None:
    server = ScriptedServer()
    server.answer("Enqueue", error(grpc.StatusCode.UNAUTHENTICATED))
    try:
        with Client(server.address, token="wrong") as client, pytest.raises(LeaseBrokerError, match="UNAUTHENTICATED"):
            client.enqueue("work", [{}])
    finally:
        server.close()
    assert len(server.headers) == 2


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("unix:/run/broker.sock", True),
        ("dns:///localhost:1", True),
        ("10.0.0.1:1", False),
        ("db.example:1", False),
        ("dns:///db.example:1", False),
        ("localhost.example:1", False),
    ],
)
def test_plaintext_is_only_for_this_machine(address: str, loopback: bool) -> None:
    assert is_loopback(address) == loopback
