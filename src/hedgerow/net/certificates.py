"""Keys and certificates of parties.

Every party makes its own key, which never leaves its machine. It is known by the fingerprint of its
self-signed certificate alone; host names and certificate authorities play no part.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import ssl
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hedgerow.errors import Code

KEY_MODE = 0o600
# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL.
TIME_ERRORS = {9, 10}
DAYS = 3650
"""For which a certificate is valid, if nothing else is said."""
RENEWAL = x509.ObjectIdentifier("2.25.285707178292556861014449224047872608809")
"""Extension of a certificate that takes the place of an earlier one: that one's signature."""
_RENEWED = b"hedgerow/renewal/1\x00"


@dataclass(frozen=True)
class Identity:
    """PEM files of a party's private key, of mode 0600, and of its certificate, which is public."""

    key: Path
    certificate: Path

    @property
    def pem(self) -> str:
        """The certificate, to be given to the other parties."""
        try:
            return self.certificate.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise Code.BAD_KEY_FILE.error(found=f"{self.certificate}: {error}") from None

    def check(self) -> None:
        """Refuse a key that others than its owner could read."""
        try:
            mode = stat.S_IMODE(self.key.stat().st_mode)
        except OSError as error:
            raise Code.BAD_KEY_FILE.error(found=f"{self.key}: {error.strerror}") from None
        if mode & 0o077:
            raise Code.BAD_KEY_FILE.error(
                expected=f"{self.key} with mode 0600", found=f"mode {mode:04o}"
            )


def make_identity(
    folder: Path,
    name: str,
    *,
    stem: str | None = None,
    days: int = DAYS,
    renews: Identity | None = None,
) -> Identity:
    """Make a new Ed25519 key and a self-signed certificate; an existing key is not replaced.

    They are ``<stem>.key`` and ``<stem>.pem`` in an existing folder. The name is for people to
    read; it proves nothing.
    `renews`: whose key vouches for the new one. Its certificates follow the new one in the file.
    """
    stem = name if stem is None else stem
    identity = Identity(folder / f"{stem}.key", folder / f"{stem}.pem")
    key = Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of parties may differ a little.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        # Tell certificates of one name apart: every party chooses its own.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    if renews is not None:
        proof = sign(renews, _vouched(fingerprint(renews.pem), name, key.public_key()))
        builder = builder.add_extension(x509.UnrecognizedExtension(RENEWAL, proof), critical=False)
    certificate = builder.sign(key, None)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        # Created with its final mode: at no moment can another user open it.
        descriptor = os.open(identity.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, KEY_MODE)
    except FileExistsError:
        raise Code.BAD_KEY_FILE.error(
            expected=f"no key at {identity.key}",
            found="one that would be lost",
            fix="use it, or move it away first",
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")
    earlier = "" if renews is None else renews.pem
    identity.certificate.write_text(pem + earlier, encoding="ascii")
    return identity


def fingerprint(certificate: str | bytes) -> bytes:
    """SHA-256 of a certificate, PEM text or DER bytes: 32 bytes; of several, the first's."""
    if isinstance(certificate, bytes):
        return hashlib.sha256(certificate).digest()
    return fingerprints(certificate)[0]


def fingerprints(pem: str) -> tuple[bytes, ...]:
    """Return those of all certificates of a party, as `renews` orders them: the newest first."""
    return tuple(
        hashlib.sha256(one.public_bytes(serialization.Encoding.DER)).digest()
        for one in _loaded(pem)
    )


def is_renewal(new: x509.Certificate, old: x509.Certificate) -> bool:
    """Whether the key of an old certificate vouches for that of a new one, of the same name."""
    key, names = new.public_key(), new.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not isinstance(key, Ed25519PublicKey) or new.subject != old.subject or len(names) != 1:
        return False
    try:
        proof = new.extensions.get_extension_for_oid(RENEWAL).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    before = old.public_bytes(serialization.Encoding.PEM).decode("ascii")
    message = _vouched(fingerprint(before), str(names[0].value), key)
    return isinstance(proof, x509.UnrecognizedExtension) and is_signed(before, message, proof.value)


def _vouched(before: bytes, name: str, key: Ed25519PublicKey) -> bytes:
    return _RENEWED + before + key.public_bytes_raw() + name.encode()


def _loaded(pem: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise Code.BAD_KEY_FILE.error(found=f"no PEM certificate: {error}") from None


def readable(print_: bytes) -> str:
    """Write a fingerprint for people to compare, such as ``12:AB:...``."""
    return print_.hex(":").upper()


def sign(identity: Identity, message: bytes) -> bytes:
    """Sign with the key behind a party's certificate: 64 bytes.

    The message begins with what it is for, so that no signature passes for another's.
    """
    identity.check()
    try:
        key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise Code.BAD_KEY_FILE.error(found=f"{identity.key}: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Code.BAD_KEY_FILE.error(expected="an Ed25519 key", found=f"{identity.key}")
    return key.sign(message)


def is_signed(certificates: str, message: bytes, signature: bytes) -> bool:
    """Whether the holder of one of a party's PEM certificates has signed a message."""
    for certificate in _loaded(certificates):
        key = certificate.public_key()
        if isinstance(key, Ed25519PublicKey):
            with contextlib.suppress(InvalidSignature):
                key.verify(signature, message)
                return True
    return False


def tls_context(
    identity: Identity,
    peers: Iterable[str],
    *,
    server: bool,
    kind: type[ssl.SSLContext] = ssl.SSLContext,
) -> ssl.SSLContext:
    """Set up TLS 1.3 with certificates required on both sides.

    Nothing is trusted but the PEM certificates of the peers. Which of them is at the other end is
    for the caller to compare.
    """
    identity.check()
    context = kind(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        # Sessions are never resumed; a ticket would be a message that nobody reads.
        context.num_tickets = 0
    try:
        context.load_cert_chain(identity.certificate, identity.key)
        context.load_verify_locations(cadata="\n".join(peers))
    except (OSError, ValueError) as error:
        raise Code.BAD_KEY_FILE.error(found=f"{identity.key}: {error}") from None
    return context
