"""Who has posted a job, or resumed its run: it signs that, so that others can pass it on."""

from __future__ import annotations

from hedgerow.errors import Code
from hedgerow.net.certificates import is_signed, sign
from hedgerow.parties.consortium.config import PartyConfig

_POSTED = b"hedgerow/job posted/v1\x00"
_RESUMED = b"hedgerow/run resumed/v1\x00"


def sign_job(config: PartyConfig, hash: str) -> bytes:
    """Sign the hash of a job as the member that posts it."""
    return sign(config.identity, _POSTED + hash.encode())


def check_signature(config: PartyConfig, hash: str, by: str, signature: bytes) -> None:
    """Refuse, H935, a job that is passed on and that its poster has not signed."""
    _check(config, by, _POSTED + hash.encode(), signature, f"for a job of {by}")


def sign_resumption(config: PartyConfig, run: str, generation: int) -> bytes:
    """Sign, as the member that resumes a run, that it goes on in a generation."""
    return sign(config.identity, _resumption(run, generation))


def check_resumption(
    config: PartyConfig, run: str, generation: int, by: str, signature: bytes
) -> None:
    """Refuse, H935, a resumption that is passed on and that nobody has signed."""
    _check(config, by, _resumption(run, generation), signature, f"for a resumption by {by}")


def _resumption(run: str, generation: int) -> bytes:
    return _RESUMED + f"{generation} {run}".encode()


def _check(config: PartyConfig, by: str, signed: bytes, signature: bytes, what: str) -> None:
    if not is_signed(config.certificate(config.member(by).name), signed, signature):
        raise Code.NOT_SIGNED.error(found=f"another one, {what}")
