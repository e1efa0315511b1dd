"""Keys and certificates in a party's folder: its own, and those of the other members."""

from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import (
    DAYS,
    Identity,
    fingerprint,
    is_renewal,
    make_identity,
    tls_context,
)
from hedgerow.parties.consortium.config import MAX_FILE_BYTES, Member, PartyConfig
from hedgerow.parties.consortium.state_key import VARIABLE, key_path, make_state_key
from hedgerow.parties.store.durable import check_private, make_private, read_small, replacing
from hedgerow.parties.wire.handlers import Caller

MAX_DAYS = 36_500
MAX_LINE = 64
"""Certificates of one member, one after another."""


SOON = datetime.timedelta(days=30)
"""Before the end of a certificate, in which everybody who starts a command is warned of it."""


class Ending(NamedTuple):
    """A certificate that ends soon, and what to do about it."""

    found: str
    fix: str


@dataclass(frozen=True)
class Certificate:
    """A certificate, read and found well formed, with its SHA-256 and the public key in DER.

    Its name is what the party says; who it is, the fingerprint decides.
    `earlier`: the one that it renews, whose key has signed this one's, and so on; all are known as
    this party's, each in its time.
    """

    name: str
    text: str
    fingerprint: bytes
    public_key: bytes
    begins: datetime.datetime
    ends: datetime.datetime
    earlier: Certificate | None = None

    @property
    def pem(self) -> str:
        """Texts of this one and of the earlier ones, the newest first."""
        return "".join(one.text for one in self.line())

    def line(self) -> Iterator[Certificate]:
        """Yield this one, then the earlier ones."""
        one: Certificate | None = self
        while one is not None:
            yield one
            one = one.earlier

    @classmethod
    def parse(cls, text: str, source: str) -> Certificate:
        """Read a self-signed certificate in PEM, before those that it renews; H856 otherwise."""
        if "PRIVATE KEY" in text:
            raise Code.WRONG_CERTIFICATE.error(
                expected="a certificate, which is public",
                found=f"a private key in {source}",
                fix="if it was sent to you: tell its party to make a new one, and delete the file",
            )
        try:
            found = x509.load_pem_x509_certificates(text.encode())
            if len(found) > MAX_LINE:
                raise ValueError(f"{len(found)} certificates")
            for new, old in itertools.pairwise(found):
                if not is_renewal(new, old):
                    raise ValueError(f"{len(found)} certificates, not all of one member")
            made = None
            for certificate in reversed(found):
                made = cls._read(certificate, made)
        except (ValueError, TypeError, InvalidSignature) as error:
            reason = str(error) or "it is not signed with its own key"
            raise Code.WRONG_CERTIFICATE.error(found=f"{source}: {reason}") from None
        assert made is not None
        return made

    @classmethod
    def _read(cls, certificate: x509.Certificate, earlier: Certificate | None) -> Certificate:
        # Others could not be trusted by themselves: there are no authorities here.
        certificate.verify_directly_issued_by(certificate)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if len(names) != 1 or not isinstance(names[0].value, str):
            raise ValueError("not exactly one common name")
        key = certificate.public_key()
        text = certificate.public_bytes(Encoding.PEM).decode("ascii")
        return cls(
            name=names[0].value,
            text=text,
            fingerprint=fingerprint(text),
            public_key=key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            begins=certificate.not_valid_before_utc,
            ends=certificate.not_valid_after_utc,
            earlier=earlier,
        )

    @classmethod
    def of(cls, config: PartyConfig, name: str) -> Certificate:
        """Read the certificate of a member; H857 if it is not here, H856 if it is another's."""
        path = config.certificate_file(name)
        certificate = cls.parse(config.certificate(name), str(path))
        if certificate.name != name:
            raise Code.WRONG_CERTIFICATE.error(
                expected=f"the certificate of {name} in {path}",
                found=f"one with the name {certificate.name!r}",
            )
        return certificate

    def is_in_time(self, now: datetime.datetime) -> bool:
        """Whether it is valid at a time."""
        return self.begins <= now <= self.ends

    def check_time(self) -> None:
        """Refuse a certificate outside its time; H855."""
        now = datetime.datetime.now(datetime.UTC)
        if not self.is_in_time(now):
            raise Code.CERTIFICATE_EXPIRED.error(
                found=f"{self.name!r}: valid from {self.begins:%Y-%m-%d %H:%M} "
                f"to {self.ends:%Y-%m-%d %H:%M} UTC, now {now:%Y-%m-%d %H:%M}"
            )


def make_keys(config: PartyConfig, days: int = DAYS) -> Certificate:
    """Make this party's key and certificate in its folder; an existing key is not replaced.

    Who keeps shares gets a key for its state, too, if it has none. Raises H810 if there is
    a key, H501 for a time that is too long or none.
    """
    check_days(days)
    folder = config.identity.key.parent
    _ensure(folder)
    identity: Identity = make_identity(folder, config.name, stem="party", days=days)
    state_key = key_path(config.folder)
    given = VARIABLE in os.environ or os.path.lexists(state_key)
    if config.me.keeps_shares and not given:
        make_state_key(state_key)
    return Certificate.parse(identity.pem, str(identity.certificate))


def check_days(days: int) -> None:
    """Refuse a time that a certificate cannot be valid for; H501."""
    if not 1 <= days <= MAX_DAYS:
        raise Code.BAD_PARAMETER.error(expected=f"--days from 1 to {MAX_DAYS}", found=f"{days}")


def introduce_all(folders: Sequence[Path]) -> None:
    """Make the keys of all parties on this machine, and have each know all others.

    For study alone: whoever runs it could be any of the parties.
    """
    configs = [PartyConfig.load(folder) for folder in folders]
    made = [make_keys(config) for config in configs]
    for config in configs:
        add_certificates(config, [one for one in made if one.name != config.name])


def check_keys(config: PartyConfig) -> Certificate:
    """Return this party's certificate if its key is there, is private and belongs to it.

    Raises H810 for a key that others can read, H855 to H857 for the certificate.
    """
    certificate = Certificate.of(config, config.name)
    # Loading both of them compares them.
    tls_context(config.identity, [certificate.pem], server=False)
    certificate.check_time()
    return certificate


def add_certificate(config: PartyConfig, path: Path, *, replace: bool = False) -> Certificate:
    """Keep the certificate of another member; its fingerprint is to be compared by telephone.

    `replace`: whether an earlier one of that member may be replaced.
    Raises H856 if it is not well formed, is this party's own, has the key of another member or
    would replace another one, H850 if its name is not a member's, H855 if its time is over.
    """
    # Where the operator has the file is the operator's business: a link is fine here.
    text = read_small(path.resolve(), MAX_FILE_BYTES, Code.WRONG_CERTIFICATE)
    certificate = Certificate.parse(text, str(path))
    add_certificates(config, [certificate], replace=replace)
    return certificate


def add_certificates(
    config: PartyConfig, certificates: Iterable[Certificate], *, replace: bool = False
) -> None:
    """Keep certificates of other members: all of them or, if one is refused, none.

    Raises what `add_certificate` does.
    """
    added: dict[str, Certificate] = {}
    for certificate in certificates:
        name = config.member(certificate.name).name
        if name == config.name:
            raise Code.WRONG_CERTIFICATE.error(
                expected="the certificate of another member",
                found=f"one of {name}, which is this party",
            )
        certificate.check_time()
        added[name] = certificate
    _ensure(config.folder / "members")
    keys: dict[bytes, str] = {}
    for member in config.members:
        known = config.certificate_file(member.name)
        if member.name not in added and known.exists():
            for one in Certificate.of(config, member.name).line():
                keys[one.public_key] = member.name
    for name, certificate in list(added.items()):
        for one in certificate.line():
            other = keys.setdefault(one.public_key, name)
            if other != name:
                raise Code.WRONG_CERTIFICATE.error(
                    expected="a key of its own for every member",
                    found=f"the key of {other} in the certificate of {name}",
                    fix=f"have {name} make a key of its own with `hedgerow keys`",
                )
        if not replace and os.path.lexists(config.certificate_file(name)):
            before = Certificate.of(config, name)
            if certificate in before.line():
                # The same, or one that it has renewed since.
                del added[name]
            else:
                _check_renewal(before, certificate)
    with ExitStack() as stack:
        for name, certificate in added.items():
            file = stack.enter_context(replacing(config.certificate_file(name)))
            file.write(certificate.pem.encode("ascii"))
            # A full disk shows before the first of them takes its place.
            file.flush()


def _check_renewal(before: Certificate, certificate: Certificate) -> None:
    """Refuse a certificate in place of another one, unless that one's key vouches for it."""
    if before not in certificate.line():
        raise Code.WRONG_CERTIFICATE.error(
            expected=f"the certificate of {before.name} that was added before, or its renewal",
            found="another one",
            fix=f"ask {before.name} by telephone whether it made a new key, then pass --replace",
        )
    try:
        # A key that has no more time may be in anybody's hands, and vouches for nothing.
        before.check_time()
    except HedgerowError as error:
        raise Code.CERTIFICATE_EXPIRED.error(
            expected=f"a new certificate of {before.name} before the time of the old one is over",
            found=error.found,
            fix=f"compare the new fingerprint with {before.name} by telephone, then pass --replace",
        ) from None


def ends_soon(config: PartyConfig, member: Member) -> Ending | None:
    """Return when the certificate of a member ends, if that is within `SOON` from now."""
    try:
        certificate = Certificate.of(config, member.name)
    except HedgerowError:
        # Whoever needs it says so.
        return None
    now = datetime.datetime.now(datetime.UTC)
    if not now <= certificate.ends <= now + SOON:
        return None
    if member != config.me:
        fix = f"ask {member.name} for a new one (`hedgerow keys --renew`), and add it"
    elif os.path.lexists(config.next_identity.key):
        fix = "when all members have added keys/next.pem, run `hedgerow keys --switch`"
    else:
        fix = "run `hedgerow keys --renew`"
    return Ending(
        f"certificate of {member.name} ends on {certificate.ends:%Y-%m-%d %H:%M} UTC", fix
    )


def endings(config: PartyConfig) -> list[Ending]:
    """Return what ends soon: this party's certificate, and those of members that it speaks to."""
    spoken = list(config.members)
    return [ending for ending in (ends_soon(config, one) for one in spoken) if ending is not None]


def known_callers(config: PartyConfig) -> dict[str, Caller]:
    """Return the members whose certificates are here, by certificate in PEM.

    This party is among them: its own commands ask its daemon. So is one whose time is over: who
    calls with it is told so.
    Raises H856 if two members have one key.
    """
    callers: dict[str, Caller] = {}
    keys = {one.public_key: config.name for one in Certificate.of(config, config.name).line()}
    for member in config.members:
        if not config.certificate_file(member.name).exists():
            continue
        for certificate in Certificate.of(config, member.name).line():
            other = keys.setdefault(certificate.public_key, member.name)
            if other != member.name:
                raise Code.WRONG_CERTIFICATE.error(
                    expected="a key of its own for every member",
                    found=f"the same key for {other} and {member.name}",
                )
            callers[certificate.text] = Caller(member.name, member.role)
    return callers


def _ensure(folder: Path) -> None:
    if not os.path.lexists(folder):
        make_private(folder)
    check_private(folder)
