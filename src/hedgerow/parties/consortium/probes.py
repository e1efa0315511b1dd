"""Probes: reach a server and ask how it is, and say precisely why if it cannot be reached."""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow import __version__, jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import fingerprint, tls_context
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.wire.client import call

# An alert about this party's certificate comes after the handshake, one way over the network.
_ALERT_SECONDS = 0.5
_HUNG_UP = (ConnectionError, TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


@dataclass(frozen=True)
class Health:
    """What a server says of itself.

    `clock`: seconds since 1970, when it answered.
    `members`: its `PartyConfig.list_digest`.
    """

    version: str
    clock: float
    members: str

    @classmethod
    def of(cls, config: PartyConfig) -> Health:
        """Return what this party says of itself now."""
        return cls(__version__, time.time(), config.list_digest)

    def to_fields(self) -> dict[str, Any]:
        """Write it as the fields of a reply to the request ``health``."""
        return {"version": self.version, "clock": self.clock, "members": self.members}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Health:
        """Read the fields of a reply, which may have others besides; H884 if they are not there."""
        version, clock, members = (fields.get(key) for key in ("version", "clock", "members"))
        if (
            not isinstance(version, str)
            or not isinstance(clock, int | float)
            or not math.isfinite(clock)
            or not isinstance(members, str)
        ):
            raise Code.BAD_REPLY.error(
                expected="version, clock and members", found=jsonfile.shown(dict(fields))
            )
        return cls(jsonfile.shown(version), float(clock), members)


Probe = Callable[[PartyConfig, Member], Health | None]
"""Reach a server: what it says, or None if it was reached and says nothing of itself yet.

Raises `ProbeError` if it was not reached.
"""


class ProbeError(Exception):
    """Why a server was not reached, and what to do about it."""

    def __init__(self, found: str, fix: str) -> None:
        super().__init__(found)
        self.found, self.fix = found, fix


def ask_health(config: PartyConfig, server: Member) -> Health | None:
    """Ask a server how it is; a `Probe`."""
    try:
        reply = call(
            (server.host, config.port_of(server)),
            config.identity,
            config.certificate(server.name),
            "health",
            name=server.name,
            timeout=config.timeouts.request,
            connect_timeout=config.timeouts.connect,
        )
    except HedgerowError as error:
        if error.code is Code.UNKNOWN_VERB:
            return None
        if error.party is None:
            # It was not the server that refused: a handshake tells more about why.
            shake_hands(config, server)
        raise
    return Health.parse(reply.fields)


def shake_hands(config: PartyConfig, server: Member) -> None:
    """Reach a server by TCP and mutual TLS; a `Probe` that learns nothing else."""
    port = config.port_of(server)
    place = f"{server.host}:{port}"
    context = tls_context(config.identity, [config.certificate(server.name)], server=False)
    expected = fingerprint(config.certificate(server.name))
    try:
        raw = socket.create_connection((server.host, port), config.timeouts.connect)
    except socket.gaierror as error:
        fix = f"correct the host of {server.name} in party.toml"
        raise ProbeError(f"no address of {server.host}: {error.strerror}", fix) from None
    except TimeoutError:
        fix = f"open the port in the firewalls between here and {server.name}; compare the host"
        raise ProbeError(f"no answer at {place}", fix) from None
    except OSError as error:
        verbs = {server.port: "serve", server.site_port: "site count"}
        verb = {"server": verbs[port], "site": "site serve"}.get(server.role, "topdown coordinate")
        fix = f"have {server.name} start `hedgerow {verb}`; compare host and port in party.toml"
        fix += " (a server counts only while a tree grows)" * (verb == "site count")
        raise ProbeError(f"nobody at {place}: {error.strerror or error}", fix) from None
    refused = ProbeError(
        f"{place} does not accept this party's certificate",
        f"send keys/party.pem to {server.name}, to be added there; compare the clocks",
    )
    with raw:
        try:
            stream = context.wrap_socket(raw)
        except ssl.SSLCertVerificationError as error:
            fix = (
                f"ask {server.name} by telephone whether it has a new key, then "
                "`hedgerow consortium add --replace FILE`; else somebody else is there"
            )
            found = f"another certificate at {place}: {error.verify_message}"
            raise ProbeError(found, fix) from None
        except _HUNG_UP as error:
            fix = f"look into the log of {server.name}; compare the port in party.toml"
            raise ProbeError(f"{place} hung up: {error.strerror or error}", fix) from None
        except ssl.SSLError:
            fix = f"compare the port of {server.name} in party.toml: is it that of requests?"
            raise ProbeError(f"no TLS 1.3 at {place}", fix) from None
        with stream:
            if fingerprint(stream.getpeercert(binary_form=True) or b"") != expected:
                raise ProbeError(
                    f"another certificate at {place}", f"ask {server.name} which one it uses"
                )
            stream.settimeout(_ALERT_SECONDS)
            try:
                # In TLS 1.3 the server judges this party's certificate when the handshake is
                # over here. Silence means that it waits for a request.
                if not stream.recv(1):
                    raise refused
            except TimeoutError:
                return
            except OSError:
                raise refused from None
