"""Keys stay private, certificates are what parties are known by."""

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, fingerprint, make_identity, readable, tls_context


def refuses(action) -> str:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is Code.BAD_KEY_FILE
    return str(caught.value)


def test_key_is_for_its_owner_only(tmp_path: Path) -> None:
    identity = make_identity(tmp_path, "server-0")
    assert stat.S_IMODE(identity.key.stat().st_mode) == 0o600
    assert "PRIVATE" not in identity.pem
    identity.check()
    identity.key.chmod(0o640)
    assert "0640" in refuses(identity.check)


def test_a_key_is_not_replaced(tmp_path: Path) -> None:
    before = make_identity(tmp_path, "a").key.read_bytes()
    refuses(lambda: make_identity(tmp_path, "a"))
    assert (tmp_path / "a.key").read_bytes() == before


def test_fingerprint_of_both_encodings(tmp_path: Path) -> None:
    pem = make_identity(tmp_path, "a").pem
    certificate = x509.load_pem_x509_certificate(pem.encode())
    assert fingerprint(pem) == fingerprint(ssl.PEM_cert_to_DER_cert(pem))
    assert certificate.subject == certificate.issuer
    assert fingerprint(make_identity(tmp_path, "b").pem) != fingerprint(pem)
    assert len(readable(fingerprint(pem)).split(":")) == 32
    refuses(lambda: fingerprint("no certificate"))


def test_context_wants_tls_1_3_and_certificates(tmp_path: Path) -> None:
    identity = make_identity(tmp_path, "a")
    for server in (True, False):
        context = tls_context(identity, [identity.pem], server=server)
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert not context.check_hostname
        assert context.cert_store_stats()["x509"] == 1


def test_unusable_files(tmp_path: Path) -> None:
    identity, other = make_identity(tmp_path, "a"), make_identity(tmp_path, "b")
    missing = Identity(tmp_path / "none.key", tmp_path / "none.pem")
    refuses(missing.check)
    refuses(lambda: missing.pem)
    mixed = Identity(identity.key, other.certificate)
    refuses(lambda: tls_context(mixed, [other.pem], server=True))
    refuses(lambda: tls_context(identity, ["no certificate"], server=True))
