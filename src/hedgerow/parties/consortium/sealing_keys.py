"""Sealing keys of the servers, made for one run and signed: what those who share rely on.

Owners of a DP-TopDown run on secure counts, and sites of a vertical ID3 on secret counts, seal
their shares to keys of the three servers, and what they seal goes through somebody else: a
coordinator, or the site that asks. So every server signs its key with the key behind its
certificate, which the others have, for one run: the hash of the job and a number that was drawn for
the run. A key of another run, of another server or of whoever passes it on does not pass (H760).

The signature also says whether the server draws its noise as it must; nobody sends shares to
servers that do not, unless it is a test itself.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from hedgerow import jsonfile
from hedgerow.crypto.sealed import KEY_BYTES, SealingKey, check_signed, sign_key
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import SERVERS, PartyConfig
from hedgerow.parties.consortium.members import Certificate

RUN_BYTES = 16
"""Of the number of a run."""
SIGNATURE_BYTES = 64
_FIELDS = {"public", "signature", "private"}


class SealedJob(Protocol):
    """What a signature needs of a job."""

    @property
    def kind(self) -> str: ...  # noqa: D102

    @property
    def hash(self) -> str: ...  # noqa: D102

    @property
    def run_id(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class SignedKey:
    """The public half of a server's sealing key, signed with the key behind its certificate.

    `private`: whether the server's noise comes from the operating system.
    """

    public: bytes
    signature: bytes
    private: bool

    def to_dict(self) -> dict[str, Any]:
        """Write it as JSON has it."""
        return {
            "public": self.public.hex(),
            "signature": self.signature.hex(),
            "private": self.private,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read what `to_dict` wrote, also from somebody hostile; H760 for anything else."""
        if not isinstance(data, dict) or set(data) != _FIELDS:
            raise _refused("something else")
        public = digits(data["public"], KEY_BYTES)
        signature = digits(data["signature"], SIGNATURE_BYTES)
        if public is None or signature is None or not isinstance(data["private"], bool):
            raise _refused("something else")
        return cls(public, signature, data["private"])

    def to_bytes(self) -> bytes:
        """Write it as a message."""
        return json.dumps(self.to_dict(), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Self:
        """Read a message; H760 for anything else."""
        return cls.from_dict(jsonfile.loads(message, Code.SEALED_REFUSED))

    @classmethod
    def sign(
        cls, key: SealingKey, config: PartyConfig, job: SealedJob, run: bytes, *, private: bool
    ) -> Self:
        """Sign a key for a run, as the server whose configuration it is."""
        context = context_of(job, run, config.name, private=private)
        return cls(key.public, sign_key(config.identity, key.public, context), private)

    def check(self, config: PartyConfig, job: SealedJob, run: bytes, server: str) -> bytes:
        """Return the key if it is that server's, in this run, by this party's copy of the job.

        Raises H760 if the signature is of another party, key or run, H855 or H857 without a
        certificate of the server that is valid now.
        """
        context = context_of(job, run, server, private=self.private)
        certificate = Certificate.of(config, server)
        certificate.check_time()
        now = datetime.datetime.now(datetime.UTC)
        known = "".join(one.text for one in certificate.line() if one.is_in_time(now))
        try:
            return check_signed(known, self.public, self.signature, context)
        except HedgerowError as error:
            if error.code is not Code.SEALED_REFUSED:
                raise
            raise Code.SEALED_REFUSED.error(
                expected=f"a sealing key that {server} has signed for run {run.hex()} of "
                f"{job.run_id}",
                found="one that it has not",
                fix="do not trust whoever passed it on; if the certificate of the server has "
                "changed, add the new one",
            ) from None


def context_of(job: SealedJob, run: bytes, server: str, *, private: bool) -> bytes:
    """Return what a signature is bound to: the job, the run, the server and its noise."""
    bound = [f"{job.kind} sealing key 1", job.hash, run.hex(), server, private]
    return json.dumps(bound, separators=(",", ":")).encode()


def checked_keys(
    keys: Sequence[SignedKey], config: PartyConfig, job: SealedJob, run: bytes, *, private: bool
) -> tuple[bytes, ...]:
    """Return the keys of all three servers in their order, to seal to.

    Raises H760 for a key that its server has not signed for this run, or of a server that draws
    repeatable noise where this party counts on it.
    """
    found = []
    for server, key in zip(config.servers, keys, strict=True):
        found.append(key.check(config, job, run, server.name))
        if private and not key.private:
            raise Code.SEALED_REFUSED.error(
                expected="servers whose noise comes from the operating system",
                found=f"{server.name}, which says that its noise is repeatable",
                fix="have the servers start without an insecure seed, in a new job",
            )
    return tuple(found)


def signed_keys(data: object) -> tuple[SignedKey, ...]:
    """Read the keys of three servers from a list, of somebody who may be hostile; H760."""
    if not isinstance(data, list) or len(data) != SERVERS:
        raise _refused(f"not {SERVERS} of them")
    return tuple(SignedKey.from_dict(key) for key in data)


def digits(value: object, length: int) -> bytes | None:
    """Read so many bytes from hexadecimal digits, of somebody who may be hostile."""
    if isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{2 * length}}}", value):
        return bytes.fromhex(value)
    return None


def _refused(found: str) -> HedgerowError:
    return Code.SEALED_REFUSED.error(expected="a sealing key with its signature", found=found)
