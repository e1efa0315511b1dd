"""Helpers of the request tests: a service on loopback and members that call it."""

import contextlib
import datetime
import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, make_identity, tls_context
from hedgerow.parties.wire.client import Reply, call
from hedgerow.parties.wire.handlers import Caller, Incoming, RequestFields, ServiceLimits, Verb
from hedgerow.parties.wire.logs import JsonLines
from hedgerow.parties.wire.requests import Fields, Payload, parse_error
from hedgerow.parties.wire.service import Service


def refuses(code: Code, action: Callable[[], object]) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code, str(caught.value)
    return caught.value


def dated_identity(folder: Path, name: str, first: int, last: int) -> Identity:
    """Make an identity that is valid from `first` to `last`, in days from now."""
    identity = Identity(folder / f"{name}.key", folder / f"{name}.pem")
    key, now = Ed25519PrivateKey.generate(), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=first))
        .not_valid_after(now + datetime.timedelta(days=last))
        .sign(key, None)
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    identity.key.write_bytes(key.private_bytes(*form, serialization.NoEncryption()))
    identity.key.chmod(0o600)
    identity.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return identity


class Log(logging.Handler):
    """The log of the parties, as lines of JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def events(self, **wanted: Any) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.lines]
        return [e for e in found if all(e.get(k) == v for k, v in wanted.items())]

    def wait_for(self, **wanted: Any) -> dict[str, Any]:
        """Return the first such event; a line is written after its reply has gone out."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if found := self.events(**wanted):
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"{wanted} not in {self.lines}")


class Town:
    """Keys of a server and of members, and a service that some of them may call."""

    def __init__(self, folder: Path, log: Log) -> None:
        self.folder, self.log = folder, log
        self.server = make_identity(folder, "server")
        self.members: dict[str, Caller] = {}
        self.analyst = self.member("ann", "analyst")
        self.owner = self.member("olga", "owner")

    def member(self, name: str, role: str, identity: Identity | None = None) -> Identity:
        identity = identity or make_identity(self.folder, name)
        self.members[identity.pem] = Caller(name, role)
        return identity

    @contextlib.contextmanager
    def open(self, verbs: dict[str, Verb] | None = None, **limits: Any) -> Iterator[Service]:
        with Service(
            self.server,
            self.members,
            verbs or VERBS,
            host="127.0.0.1",
            port=0,
            limits=ServiceLimits(**limits),
        ) as self.service:
            yield self.service

    def call(
        self,
        verb: str,
        fields: Fields | None = None,
        payload: Payload = None,
        *,
        by: Identity | None = None,
        **options: Any,
    ) -> Reply:
        options = {"name": "server", "timeout": 20.0} | options
        who = by or self.analyst
        return call(self.service.address, who, self.server.pem, verb, fields, payload, **options)

    def line(self, by: Identity | None = None) -> "RawLine":
        """Connect by hand and shake hands."""
        return RawLine(self.service.address, by or self.analyst, self.server.pem)


class RawLine:
    """A connection on which any bytes can be sent, over TLS."""

    def __init__(self, address: tuple[str, int], identity: Identity, certificate: str) -> None:
        raw = socket.create_connection(address, timeout=10)
        context = tls_context(identity, [certificate], server=False)
        self.tls = context.wrap_socket(raw)
        self._rest = b""

    def send(self, data: bytes) -> None:
        self.tls.sendall(data)

    def reply(self) -> tuple[int, dict[str, str], bytes]:
        """Read one reply: its status, its headers in lower case, and its body."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
        while len(self._rest) < int(headers.get("content-length", 0)):
            self._more()
        length = int(headers.get("content-length", 0))
        body, self._rest = self._rest[:length], self._rest[length:]
        return int(first.split()[1]), headers, body

    def refusal(self) -> HedgerowError:
        """Read a reply that is a refusal."""
        status, _, body = self.reply()
        assert status >= 400, (status, body)
        error = parse_error(json.loads(body)["error"], "server")
        assert error is not None
        return error

    def ended(self) -> bool:
        """Whether the other side ends the connection, with nothing more to say."""
        try:
            return self.tls.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.tls.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(mark)
        return head

    def _more(self) -> None:
        data = self.tls.recv(1 << 16)
        if not data:
            raise ConnectionResetError("closed")
        self._rest += data


def head(verb: str, payload: int = 0, fields: str = "{}", **headers: str) -> bytes:
    """Return the head of a request, as it could be written by hand."""
    lines = {
        "Host": "server",
        "Content-Type": "application/octet-stream",
        "Content-Length": str(payload),
        "Hedgerow-Fields": fields,
    } | {name.replace("_", "-"): text for name, text in headers.items()}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /v1/{verb} HTTP/1.1\r\n{text}\r\n".encode()


@contextlib.contextmanager
def town_in(folder: Path) -> Iterator[Town]:
    """Make a town whose log is kept."""
    log, logger = Log(), logging.getLogger("hedgerow.parties")
    level = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    yield Town(folder, log)
    logger.setLevel(level)
    logger.removeHandler(log)


class Anything(RequestFields):
    """Any fields."""

    model_config = {"extra": "allow"}


def echo(caller: Caller, fields: Anything, payload: Incoming) -> tuple[Fields, Payload]:
    """Return all that came."""
    told = {"caller": caller.name, "role": caller.role, "got": fields.model_extra}
    return told, payload.read()


def ignore(caller: Caller, fields: Anything, payload: Incoming) -> tuple[Fields, Payload]:
    """Read nothing."""
    return {"left": payload.left}, None


BOTH = ("analyst", "owner")
VERBS = {
    "echo": Verb(BOTH, echo, Anything, largest=1 << 20),
    "upload": Verb(("owner",), echo, Anything, largest=1 << 20),
    "ignore": Verb(BOTH, ignore, Anything, largest=1 << 30),
}
