"""Keys stay at home; certificates are looked at before they are believed."""

import datetime
import stat
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import (
    Certificate,
    add_certificate,
    check_keys,
    known_callers,
    make_keys,
)
from hedgerow.parties.consortium.state_key import VARIABLE, read_state_key
from tests.parties.consortia import found, introduce, read_key, write_certificate


def refuses(code: Code, action) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code
    return caught.value


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, PartyConfig]:
    return found(tmp_path)


def test_keys(parties: dict[str, PartyConfig], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    alder, zoe = parties["alder"], parties["zoe"]
    made = make_keys(alder, days=30)
    assert made.name == "alder"
    assert made == check_keys(alder) == Certificate.of(alder, "alder")
    left = made.ends - datetime.datetime.now(datetime.UTC)
    assert 29 <= left.days <= 30
    assert stat.S_IMODE(alder.identity.key.stat().st_mode) == 0o600
    # A server gets a key for its state, others have none to keep.
    assert len(read_state_key(alder.folder / "keys" / "state.key")) == 32
    make_keys(zoe)
    assert not (zoe.folder / "keys" / "state.key").exists()
    monkeypatch.setenv(VARIABLE, "ab" * 32)
    make_keys(parties["birch"])
    assert not (parties["birch"].folder / "keys" / "state.key").exists()


def test_a_key_is_never_replaced(parties: dict[str, PartyConfig]) -> None:
    alder = parties["alder"]
    make_keys(alder)
    files = sorted((alder.folder / "keys").iterdir())
    before = [path.read_bytes() for path in files]
    refuses(Code.BAD_KEY_FILE, lambda: make_keys(alder))
    assert [path.read_bytes() for path in files] == before


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_days(parties: dict[str, PartyConfig], days: int) -> None:
    refuses(Code.BAD_PARAMETER, lambda: make_keys(parties["alder"], days))
    assert not parties["alder"].identity.key.exists()


def test_unsafe_keys(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    alder, birch = parties["alder"], parties["birch"]
    refuses(Code.MISSING_CERTIFICATE, lambda: check_keys(alder))
    make_keys(alder)
    make_keys(birch)
    alder.identity.key.chmod(0o644)
    assert "0644" in refuses(Code.BAD_KEY_FILE, lambda: check_keys(alder)).found
    alder.identity.key.chmod(0o600)
    write_certificate(alder.identity.certificate, "alder")
    refuses(Code.BAD_KEY_FILE, lambda: check_keys(alder))
    write_certificate(alder.identity.certificate, "alder", key=read_key(alder), days=(-9, -1))
    refuses(Code.CERTIFICATE_EXPIRED, lambda: check_keys(alder))
    write_certificate(alder.identity.certificate, "birch", key=read_key(alder))
    refuses(Code.WRONG_CERTIFICATE, lambda: check_keys(alder))
    (birch.folder / "keys").chmod(0o755)
    birch.identity.key.unlink()
    refuses(Code.UNSAFE_FOLDER, lambda: make_keys(birch))


def test_certificates_are_exchanged(parties: dict[str, PartyConfig]) -> None:
    introduce(parties)
    alder = parties["alder"]
    for name, config in parties.items():
        assert Certificate.of(alder, name).fingerprint == check_keys(config).fingerprint
    assert sorted(path.name for path in (alder.folder / "members").iterdir()) == [
        f"{name}.pem" for name in sorted(parties) if name != "alder"
    ]
    # Once more is no harm; only the certificate is kept of what was sent.
    sent = alder.folder / "sent.pem"
    sent.write_text("From: birch\n" + parties["birch"].identity.pem)
    assert add_certificate(alder, sent).name == "birch"
    assert alder.certificate("birch") == parties["birch"].identity.pem


def test_a_new_certificate_wants_a_word(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    introduce(parties)
    alder, path = parties["alder"], write_certificate(tmp_path / "new.pem", "birch")
    before = alder.certificate("birch")
    assert "--replace" in refuses(Code.WRONG_CERTIFICATE, lambda: add_certificate(alder, path)).fix
    assert alder.certificate("birch") == before
    add_certificate(alder, path, replace=True)
    assert alder.certificate("birch") == path.read_text()


def test_strangers_and_impostors(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    alder, birch = parties["alder"], parties["birch"]
    make_keys(alder)
    make_keys(birch)
    add_certificate(alder, birch.identity.certificate)
    path = tmp_path / "sent.pem"

    def refused(code: Code) -> HedgerowError:
        return refuses(code, lambda: add_certificate(alder, path))

    write_certificate(path, "eve")
    refused(Code.UNKNOWN_MEMBER)
    for name in ("../../keys/party", "Birch"):
        write_certificate(path, name)
        refused(Code.BAD_NAME)
    write_certificate(path, "cedar", days=(-9, -1))
    refused(Code.CERTIFICATE_EXPIRED)
    write_certificate(path, "cedar", days=(2, 9))
    refused(Code.CERTIFICATE_EXPIRED)
    write_certificate(path, "cedar", key=read_key(birch))
    assert "the key of birch" in refused(Code.WRONG_CERTIFICATE).found
    write_certificate(path, "cedar", key=read_key(alder))
    assert "the key of alder" in refused(Code.WRONG_CERTIFICATE).found
    write_certificate(path, "alder")
    assert "this party" in refused(Code.WRONG_CERTIFICATE).found
    assert [path.name for path in (alder.folder / "members").iterdir()] == ["birch.pem"]


def test_what_is_no_certificate(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    alder, birch = parties["alder"], parties["birch"]
    make_keys(birch)
    path, pem = tmp_path / "sent.pem", birch.identity.pem
    body = pem.splitlines()
    forged = "\n".join([*body[:3], body[3][::-1], *body[4:]])
    for text, reason in (
        ("", ""),
        ("no certificate", ""),
        (pem + pem, "2 certificates"),
        (birch.identity.key.read_text() + pem, "a private key"),
        (forged, ""),
        (pem + "x" * (1 << 20), "more than"),
    ):
        path.write_text(text)
        error = refuses(Code.WRONG_CERTIFICATE, lambda: add_certificate(alder, path))
        assert reason in error.found
        assert "PRIVATE KEY-" not in str(error)
    path.unlink()
    refuses(Code.WRONG_CERTIFICATE, lambda: add_certificate(alder, path))


def test_a_linked_members_folder(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    alder = parties["alder"]
    make_keys(parties["birch"])
    (alder.folder / "members").rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (alder.folder / "members").symlink_to(tmp_path / "elsewhere")
    sent = parties["birch"].identity.certificate
    refuses(Code.UNSAFE_FOLDER, lambda: add_certificate(alder, sent))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_callers(parties: dict[str, PartyConfig]) -> None:
    introduce(parties)
    alder, birch = parties["alder"], parties["birch"]
    members = alder.folder / "members"
    (members / "south.pem").unlink()
    write_certificate(members / "zoe.pem", "zoe", days=(-9, -1))
    callers = known_callers(alder)
    # Whose time is over is still known, to be told so.
    assert [(caller.name, caller.role) for caller in callers.values()] == [
        ("alder", "server"),
        ("birch", "server"),
        ("cedar", "server"),
        ("north", "owner"),
        ("zoe", "analyst"),
    ]
    assert callers[birch.identity.pem].name == "birch"
    for owner in (alder, birch):
        write_certificate(members / "cedar.pem", "cedar", key=read_key(owner))
        refuses(Code.WRONG_CERTIFICATE, lambda: known_callers(alder))
