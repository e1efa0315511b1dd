"""`hedgerow doctor FOLDER` finds what would keep a party from working, and says what to do."""

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.doctor import party
from hedgerow.cli.main import app
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.accounts import Accounts
from tests.parties.free_ports import free_ports

NEW = [
    *("consortium", "new", "wards", "--servers", "alder,birch,cedar", "--owners", "north,south"),
    *("--analysts", "zoe", "--populations", "patients=3", "--study"),
]
runner = CliRunner()


@pytest.fixture
def alder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = [*NEW, "--first-port", str(free_ports())]
    assert runner.invoke(app, made, catch_exceptions=False).exit_code == 0
    return Path("wards/alder").absolute()


def look(folder: Path, code: int) -> dict[str, dict]:
    words = ["doctor", str(folder), "--format", "json"]
    result = runner.invoke(app, words, catch_exceptions=False)
    assert result.exit_code == code, result.output
    said = json.loads(result.stdout)
    assert said["ok"] is (code == 0)
    return {row["what"]: row for row in said["rows"]}


def test_a_new_server_is_well_before_the_others_serve(alder: Path) -> None:
    rows = look(alder, 0)
    for what in ("folder", "disk", "state", "ports", "keys and policy", "north", "zoe"):
        assert rows[what]["gravity"] == "well", rows[what]
    assert rows["keys and policy"]["found"] == "certificate for 3649 days more"
    assert rows["account patients"]["found"].startswith("spent epsilon 0 of 3")
    # They may begin to serve later.
    assert rows["birch"]["gravity"] == rows["cedar"]["gravity"] == "note"
    assert "hedgerow serve" in rows["birch"]["fix"]
    assert not (alder / "state").exists()
    assert not list(alder.glob("doctor-*"))


def test_ports_of_another_program_are_ill(alder: Path) -> None:
    config = PartyConfig.load(alder)
    with socket.socket() as other:
        other.bind((config.me.host, config.me.run_port))
        other.listen()
        row = look(alder, 1)["ports"]
    assert row["found"] == f"{config.me.run_port}: taken by another program"


def test_an_address_of_another_machine_is_ill(alder: Path) -> None:
    for path in alder.parent.glob("*/party.toml"):
        path.write_text(path.read_text().replace('"127.0.0.1"', '"192.0.2.7"', 1))
    config = PartyConfig.load(alder)
    assert config.me.host == "192.0.2.7"
    (row,) = party.port_symptoms(config)
    assert (row.gravity, "listen" in row.fix) == ("ill", True)


def test_open_folders_and_bad_policies_are_ill(alder: Path) -> None:
    alder.chmod(0o755)
    assert look(alder, 1)["folder"]["fix"] == f"chmod 700 {alder}"
    alder.chmod(0o700)
    policy = alder / "policy.toml"
    text = policy.read_text()
    policy.write_text("allowed_protocols = 7\n")
    assert look(alder, 1)["keys and policy"]["found"].startswith("H853")
    policy.write_text(text)
    (alder / "keys" / "party.pem").unlink()
    assert look(alder, 1)["keys and policy"]["fix"] == "run `hedgerow keys`"


def test_what_is_no_party_is_told(tmp_path: Path) -> None:
    assert look(tmp_path, 1)["folder"]["found"] == f"H852 no party.toml in {tmp_path}"
    nowhere = tmp_path / "nowhere"
    found = look(nowhere, 1)["folder"]["found"]
    assert found == f"H854 {nowhere}: No such file or directory"


def test_the_database_is_read_and_what_is_left_is_told(alder: Path) -> None:
    config = PartyConfig.load(alder)
    accounts = Accounts(config.state, Policy.load(alder))
    accounts.charge("patients", "job/1", 3.0, 0.0)
    rows = look(alder, 0)
    told = runner.invoke(app, ["trail", "verify", str(alder), "--format", "json"]).stdout
    entries = json.loads(told)["entries"]
    assert entries >= 1
    assert rows["state"]["found"] == (
        f"journal_mode wal, synchronous 2; a trail of {entries} entries verifies"
    )
    assert rows["account patients"]["gravity"] == "note"
    base = alder / "state" / "party.db"
    # Another file of that name, without what was written last: this process opens it anew.
    for path in base.parent.glob("party.db*"):
        path.unlink()
    base.write_bytes(b"no database" * 1000)
    base.chmod(0o600)
    assert look(alder, 1)["state"]["found"].startswith("H867")


def test_file_systems_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(party, "_MOUNTS", mounts)
    for kind, gravity in (("ext4", "well"), ("nfs4", "ill"), ("tmpfs", "note")):
        mounts.write_text(f"a / overlay rw 0 0\nb {tmp_path} {kind} rw 0 0\nc /proc proc rw 0 0\n")
        found = party.disk_symptom(tmp_path)
        assert found.found.startswith(kind)
        assert found.gravity == gravity
    assert party.disk_symptom(tmp_path / "nowhere").found.startswith("H869")
