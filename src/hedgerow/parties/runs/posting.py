"""Who has posted a job: the poster signs its hash, so that a job can be passed on."""

from __future__ import annotations

from hedgerow.errors import Code
from hedgerow.net.certificates import is_signed, sign
from hedgerow.parties.consortium.config import PartyConfig

_POSTED = b"hedgerow/job posted/v1\x00"


def sign_job(config: PartyConfig, hash: str) -> bytes:
    """Sign the hash of a job as the member that posts it."""
    return sign(config.identity, _POSTED + hash.encode())


def check_signature(config: PartyConfig, hash: str, by: str, signature: bytes) -> None:
    """Refuse, H935, a job that is passed on and that its poster has not signed."""
    pem = config.certificate(config.member(by).name)
    if not is_signed(pem, _POSTED + hash.encode(), signature):
        raise Code.NOT_SIGNED.error(found=f"another one, for a job of {by}")
