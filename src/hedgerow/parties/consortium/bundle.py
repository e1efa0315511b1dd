"""The certificates of all members at once: from a folder, or as a bundle that one member signs.

A bundle is a JSON file: the consortium, its members in order, each with its certificate, and the
signature of the member that collected them. The signature tells a bundle that was changed on its
way. Whom to believe it cannot tell, because nobody knows the collector yet: for that the members
compare `certificates_digest` by telephone, once, as each of them has computed it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.net.certificates import is_signed, sign
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import MAX_FILE_BYTES, PartyConfig
from hedgerow.parties.consortium.members import Certificate, check_keys
from hedgerow.parties.store.durable import read_small

_SIGNED = b"hedgerow/bundle/1\x00"
# Two lists of one digest would take 2^80 certificates to find, also for the collector.
_DIGEST_BYTES = 20
_GROUP = 4


class _Entry(Numbered):
    code: ClassVar[Code] = Code.BAD_BUNDLE

    name: str
    role: str
    certificate: str


class _Bundle(Numbered):
    code: ClassVar[Code] = Code.BAD_BUNDLE

    format: Literal["hedgerow bundle 1"]
    consortium: str
    collector: str
    members: tuple[_Entry, ...]
    signature: str


def sign_bundle(config: PartyConfig, certificates: Mapping[str, Certificate]) -> str:
    """Write a bundle of the certificates of all members, signed by this party."""
    check_keys(config)
    body = {
        "format": "hedgerow bundle 1",
        "consortium": config.consortium,
        "collector": config.name,
        "members": [
            {"name": one.name, "role": one.role, "certificate": certificates[one.name].pem}
            for one in config.members
        ],
    }
    signature = sign(config.identity, _signed_bytes(body)).hex()
    return json.dumps(body | {"signature": signature}, indent=1) + "\n"


def read_certificates(config: PartyConfig, path: Path) -> dict[str, Certificate]:
    """Read the certificates of all members, in order, from a bundle or from a folder of PEM files.

    This party's own need not be in the folder. Raises H940 to H942 for a bundle or a folder, H850
    and H855 to H857 for a certificate, also if this party's own is another one than here.
    """
    found = _from_folder(config, path) if path.is_dir() else _from_bundle(config, path)
    own = check_keys(config)
    # It may have been renewed since it was collected.
    if found.setdefault(config.name, own) not in own.line():
        raise Code.WRONG_CERTIFICATE.error(
            expected=f"the certificate of {config.name} that is in {config.identity.certificate}",
            found=f"another one in {path}",
            fix="send whoever collects your keys/party.pem; if you did, it was exchanged",
        )
    missing = [member.name for member in config.members if member.name not in found]
    if missing:
        raise Code.MISSING_CERTIFICATE.error(
            expected=f"the certificates of all members in {path}",
            found=f"none of {', '.join(missing)}",
        )
    for certificate in found.values():
        certificate.check_time()
    return {member.name: found[member.name] for member in config.members}


def certificates_digest(config: PartyConfig, certificates: Mapping[str, Certificate]) -> str:
    """Hash of consortium, names, roles and fingerprints, for people to read to each other."""
    lines = [
        f"{member.name} {member.role} {certificates[member.name].fingerprint.hex()}"
        for member in config.members
    ]
    text = "\n".join(["hedgerow/certificates/1", config.consortium, *lines])
    letters = base64.b32encode(hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]).decode()
    return "-".join(letters[i : i + _GROUP] for i in range(0, len(letters), _GROUP))


def check_digest(digest: str, expected: str) -> None:
    """Refuse certificates of another digest than somebody has typed; H943."""
    if digest.replace("-", "") != "".join(expected.split()).replace("-", "").upper():
        raise Code.OTHER_DIGEST.error(expected=f"digest {expected}", found=digest)


def _from_folder(config: PartyConfig, folder: Path) -> dict[str, Certificate]:
    found: dict[str, Certificate] = {}
    for path in sorted(folder.glob("*.pem")):
        text = read_small(path.resolve(), MAX_FILE_BYTES, Code.WRONG_CERTIFICATE)
        certificate = Certificate.parse(text, str(path))
        name = config.member(certificate.name).name
        if found.setdefault(name, certificate) != certificate:
            raise Code.TWO_CERTIFICATES.error(found=f"two different ones of {name} in {folder}")
    return found


def _from_bundle(config: PartyConfig, path: Path) -> dict[str, Certificate]:
    text = read_small(path.resolve(), MAX_FILE_BYTES, Code.BAD_BUNDLE)
    data = jsonfile.loads(text, Code.BAD_BUNDLE)
    bundle = _Bundle.model_validate(data)
    names = [entry.name for entry in bundle.members]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Code.TWO_CERTIFICATES.error(found=f"two of {', '.join(twice)} in {path}")
    wanted = [(member.name, member.role) for member in config.members]
    if (bundle.consortium, [(one.name, one.role) for one in bundle.members]) != (
        config.consortium,
        wanted,
    ):
        raise Code.OTHER_MEMBERS.error(found=_difference(config, bundle))
    found = {}
    for entry in bundle.members:
        certificate = Certificate.parse(entry.certificate, f"{path}, {entry.name}")
        if certificate.name != entry.name:
            raise Code.WRONG_CERTIFICATE.error(
                expected=f"the certificate of {entry.name} in {path}",
                found=f"one with the name {certificate.name!r}",
            )
        found[entry.name] = certificate
    _check_signature(data, bundle, found)
    return found


def _check_signature(
    data: dict[str, Any], bundle: _Bundle, certificates: Mapping[str, Certificate]
) -> None:
    if bundle.collector not in certificates:
        raise Code.BAD_BUNDLE.error(found=f"one of {bundle.collector!r}, which is no member")
    try:
        signature = bytes.fromhex(bundle.signature)
    except ValueError:
        signature = b""
    body = {key: value for key, value in data.items() if key != "signature"}
    if not is_signed(certificates[bundle.collector].pem, _signed_bytes(body), signature):
        raise Code.BAD_BUNDLE.error(
            expected=f"a bundle as {bundle.collector} has signed it",
            found="one that was changed since",
        )


def _signed_bytes(body: Mapping[str, Any]) -> bytes:
    return _SIGNED + json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _difference(config: PartyConfig, bundle: _Bundle) -> str:
    """Say by what a bundle's list of members is another one."""
    if bundle.consortium != config.consortium:
        return f"a bundle of the consortium {jsonfile.shown(bundle.consortium)}"
    here = {f"{member.name} ({member.role})" for member in config.members}
    there = {f"{entry.name} ({entry.role})" for entry in bundle.members}
    parts = [
        f"{what} {', '.join(sorted(names))}"
        for what, names in (("without", here - there), ("with", there - here))
        if names
    ]
    return jsonfile.shown(" and ".join(parts) or "the same members in another order")
