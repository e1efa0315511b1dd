"""A small consortium on this machine, for tests."""

import datetime
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.members import add_certificate, make_keys
from tests.parties.free_ports import free_ports

SERVERS = ["alder", "birch", "cedar"]
OWNERS = ["north", "south"]
ANALYSTS = ["zoe"]


def found(folder: Path, **options) -> dict[str, PartyConfig]:
    """Found a consortium; the folder of every party is empty of keys."""
    members = list_members(SERVERS, OWNERS, ANALYSTS, **options)
    made = found_consortium(folder, "wards", members, {"patients": 3.0})
    return {path.name: PartyConfig.load(path) for path in made}


def introduce(parties: dict[str, PartyConfig]) -> None:
    """Make all keys and exchange all certificates."""
    for config in parties.values():
        make_keys(config)
    for config in parties.values():
        for other in parties.values():
            if other is not config:
                add_certificate(config, other.identity.certificate)


@contextmanager
def silent_ports() -> Iterator[int]:
    """Give a first port such that nobody answers at the ports for requests."""
    first = free_ports()
    with ExitStack() as stack:
        for port in (first, first + 10, first + 20):
            # Bound and not listening: calls are refused, and nobody else takes the port.
            stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
        yield first


def write_certificate(
    path: Path, name: str, *, key: Ed25519PrivateKey | None = None, days: tuple[int, int] = (-1, 9)
) -> Path:
    """Write a certificate with whatever is wrong with it, valid between two days from now."""
    key = key or Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .sign(key, None)
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path


def read_key(config: PartyConfig) -> Ed25519PrivateKey:
    """Read the private key of a party."""
    key = serialization.load_pem_private_key(config.identity.key.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    return key


_IN_STATE = (
    # The store, and the shares that its rows name.
    *("party.db", "party.db-wal", "party.db-shm"),
    *("uploads/*/part.vault", "models/*/shares.bin", "runs/*/stages/*.bin"),
    "runs/*/halves.bin",
    # Empty files that are held.
    *("daemon.lock", "uploads.lock", "runs/*/lock", "queries/*/lock"),
    # For people alone: nothing reads them.
    *("log.jsonl", "log.jsonl.1", "runs/*/worker.log", "runs/*/owner-only.json", "console.url"),
)


def stray_files(folder: Path) -> list[Path]:
    """Return what a party keeps outside its store, but for shares, locks and logs."""
    state = folder / "state"
    known = {path for pattern in _IN_STATE for path in state.glob(pattern)}
    # A writer that was killed leaves a file whose name begins so, until the next start.
    found = {path for path in state.rglob("*") if path.is_file() and path.name[0] != "."}
    assert all(not path.stat().st_size for path in known if path.name.endswith("lock"))
    return sorted(found - known)
