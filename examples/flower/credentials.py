"""Keys and certificates of a federation on one machine, for trying it out.

A real SuperLink has a certificate of an authority that its SuperNodes know, every owner makes the
key of its SuperNode at home, and only public keys travel.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

DAYS = 30


def make_superlink(folder: Path) -> None:
    """Write ``ca.pem``, and ``superlink.pem`` with ``superlink.key``, for 127.0.0.1."""
    authority, own = _key(), _key()
    issuer = _name("Hedgerow demo authority")
    ca = (
        _certificate(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority, hashes.SHA384())
    )
    here = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    certificate = (
        _certificate(_name("SuperLink"), issuer, own.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .sign(authority, hashes.SHA384())
    )
    # The authority's key is not kept: it has signed all that it has to.
    (folder / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    (folder / "superlink.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    _write_key(folder / "superlink.key", own, PrivateFormat.PKCS8)


def make_supernode(folder: Path, name: str) -> None:
    """Write ``<name>.key`` and ``<name>.pub``, with which a SuperNode proves who it is."""
    own = _key()
    public = own.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public)
    _write_key(folder / f"{name}.key", own, PrivateFormat.OpenSSH)


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, form, NoEncryption()))
