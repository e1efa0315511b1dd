"""``hedgerow consortium`` and ``hedgerow keys``, as operators type them."""

import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app, main
from hedgerow.errors import Code
from hedgerow.net import certificates
from hedgerow.parties.consortium.policy import Policy

MEMBERS = ["alder", "birch", "cedar", "north", "south", "zoe"]
NEW = [
    *("consortium", "new", "wards", "--servers", "alder,birch,cedar"),
    *("--owners", "north, south", "--analysts", "zoe"),
]
runner = CliRunner()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def run(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def run_json(*arguments: str, code: int = 0) -> dict:
    return json.loads(run(*arguments, "--format", "json", code=code))


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run as a user does; return what is printed with the numbered error."""

    def run_main(code: Code, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        text = capsys.readouterr().err
        assert caught.value.code == 2
        assert text.startswith(f"{code.number} ")
        assert "Traceback" not in text
        return text

    return run_main


def exchange() -> dict[str, str]:
    """Make all keys, exchange all certificates; return the fingerprints."""
    prints = {m: run_json("keys", f"wards/{m}")["fingerprint"] for m in MEMBERS}
    for me in MEMBERS:
        for other in MEMBERS:
            if other != me:
                added = run_json(
                    "consortium", "add", f"wards/{other}/keys/party.pem", f"wards/{me}"
                )
                assert (added["member"], added["fingerprint"]) == (other, prints[other])
    return prints


def test_from_founding_to_check() -> None:
    # Bound and not listening: calls are refused, and nobody else takes the ports.
    with socket.socket() as birch, socket.socket() as cedar:
        birch.bind(("127.0.0.1", 0))
        cedar.bind(("127.0.0.1", 0))
        made = run_json(*NEW)
        assert list(made["folders"]) == MEMBERS
        for old, new in ((7610, birch), (7620, cedar)):
            for path in Path("wards").glob("*/party.toml"):
                port = new.getsockname()[1]
                path.write_text(path.read_text().replace(f"\nport = {old}", f"\nport = {port}"))
        prints = exchange()
        report = run_json("consortium", "check", "wards/alder", code=1)
    rows = {row["member"]: row for row in report["rows"]}
    assert {name: row["fingerprint"] for name, row in rows.items()} == prints
    # No server runs; everything else is ready.
    assert [name for name, row in rows.items() if not row["ok"]] == ["birch", "cedar"]
    assert "hedgerow serve" in rows["birch"]["problems"][0]["fix"]
    assert rows["birch"]["reached"] is False


def test_texts_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "wards/alder  (server)" in run(*NEW)
    monkeypatch.chdir("wards/alder")
    text = run("keys", "--days", "30")
    assert "never leaves this machine" in text
    fingerprint = text.split("fingerprint ")[1].split()[0]
    run("keys", "../birch")
    assert "by telephone" in run("consortium", "add", "../birch/keys/party.pem")
    table = run("consortium", "check", code=1)
    # All of the fingerprint is there, in four lines.
    for i in range(0, 95, 24):
        assert fingerprint[i : i + 23] in table
    assert "what to do: ask cedar for its keys/party.pem" in table
    assert "server, this party" in table


def test_no_byte_of_a_fingerprint_becomes_a_picture(monkeypatch, refused) -> None:
    monkeypatch.setattr(certificates, "readable", lambda print_: ":".join(["AB"] * 32))
    run(*NEW)
    run("keys", "wards/alder")
    table = run("consortium", "check", "wards/alder", code=1)
    assert table.count(":".join(["AB"] * 8)) == 4
    assert ":AB:" in refused(Code.UNSAFE_FOLDER, "keys", "no:AB:folder")


def test_options_of_new() -> None:
    hosts = ["--hosts", "a.example,b.example,c.example", "--first-port", "9000"]
    run(*NEW, *hosts, "--populations", "patients=3,staff=0.5", "--into", ".")
    text = Path("wards/zoe/party.toml").read_text()
    assert 'host = "b.example"\nport = 9010\n' in text
    listed = Policy.load(Path("wards/zoe")).populations
    assert {name: one.epsilon for name, one in listed.items()} == {"patients": 3.0, "staff": 0.5}


def test_what_new_refuses(refused) -> None:
    def changed(option: str, value: str) -> list[str]:
        at = NEW.index(option) + 1
        return [*NEW[:at], value, *NEW[at + 1 :]]

    refused(Code.BAD_PARTY_FILE, *changed("--servers", "alder,birch"))
    refused(Code.BAD_PARTY_FILE, *changed("--owners", "alder"))
    refused(Code.BAD_NAME, *changed("--owners", "../../north"))
    refused(Code.BAD_NAME, *changed("--owners", "north,,south"))
    refused(Code.BAD_NAME, "consortium", "new", "../wards", *NEW[3:])
    refused(Code.BAD_PARTY_FILE, *NEW, "--hosts", "a,b")
    for wrong in ("patients", "patients=", "patients=-1", "patients=nan", "a=1,a=2"):
        refused(Code.BAD_PARAMETER, *NEW, "--populations", wrong)
    assert not Path("wards").exists()
    run(*NEW)
    refused(Code.FOLDER_EXISTS, *NEW)


def test_what_keys_and_add_refuse(refused) -> None:
    run(*NEW)
    refused(Code.UNSAFE_FOLDER, "keys", "nowhere")
    refused(Code.BAD_PARTY_FILE, "keys", "wards")
    refused(Code.BAD_PARAMETER, "keys", "wards/alder", "--days", "0")
    run("keys", "wards/alder")
    refused(Code.BAD_KEY_FILE, "keys", "wards/alder")
    run("keys", "wards/birch")
    sent = "wards/birch/keys/party.pem"
    refused(
        Code.WRONG_CERTIFICATE, "consortium", "add", "wards/birch/keys/party.key", "wards/alder"
    )
    refused(Code.WRONG_CERTIFICATE, "consortium", "add", sent, "wards/birch")
    refused(Code.WRONG_CERTIFICATE, "consortium", "add", "none.pem", "wards/alder")
    run("consortium", "add", sent, "wards/alder")
    run("consortium", "add", sent, "wards/alder")
    for name in ("party.key", "party.pem"):
        (Path("wards/birch/keys") / name).unlink()
    run("keys", "wards/birch")
    assert "--replace" in refused(Code.WRONG_CERTIFICATE, "consortium", "add", sent, "wards/alder")
    run("consortium", "add", sent, "wards/alder", "--replace")


def test_unsafe_places(refused) -> None:
    run(*NEW)
    Path("linked").symlink_to("wards/alder")
    for verb in (["keys"], ["consortium", "check"]):
        refused(Code.UNSAFE_FOLDER, *verb, "linked")
        Path("wards/alder").chmod(0o755)
        assert "chmod 700" in refused(Code.UNSAFE_FOLDER, *verb, "wards/alder")
        Path("wards/alder").chmod(0o700)
    run("keys", "wards/alder")
    Path("wards/alder/keys/party.key").chmod(0o644)
    row = run_json("consortium", "check", "wards/alder", code=1)["rows"][0]
    assert row["problems"][0]["found"].startswith("H810 mode 0644")


def test_failures_as_json(monkeypatch, capsys) -> None:
    monkeypatch.setattr(
        sys, "argv", ["hedgerow", "consortium", "check", "none", "--format", "json"]
    )
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["error"] == Code.UNSAFE_FOLDER.number


def test_for_study_all_keys_are_made_and_known() -> None:
    said = run(*NEW, "--study")
    assert "the keys of all parties are on this machine" in said
    for me in MEMBERS:
        report = run_json("consortium", "check", f"wards/{me}", code=1)
        assert report["rows"]
        # Nobody serves; whose certificate a party needs, it has.
        for row in report["rows"]:
            assert all("nobody at" in problem["found"] for problem in row["problems"]), row


def test_a_check_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    run(*NEW, "--study")
    asked = []

    def found(config):
        asked.append(config.name)
        down = [] if len(asked) > 2 else ["down"]
        return [SimpleNamespace(problems=down, to_dict=dict)]

    monkeypatch.setattr("hedgerow.parties.consortium.reach.check_consortium", found)
    monkeypatch.setattr("hedgerow.cli.consortium._PAUSE", 0.0)
    run_json("consortium", "check", "wards/zoe", code=1)
    run_json("consortium", "check", "wards/zoe", "--wait", "30")
    assert len(asked) == 3
