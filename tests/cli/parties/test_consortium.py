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
from hedgerow.parties.consortium import reach
from hedgerow.parties.consortium.config import PartyConfig, Timeouts
from hedgerow.parties.consortium.policy import Lifetime, Policy

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


def collect() -> str:
    """Make all keys, with the certificates in one folder, and a bundle; return its digest."""
    Path("collected").mkdir()
    for member in MEMBERS:
        made = run_json("keys", f"wards/{member}", "-o", "collected")
        assert made["file"] == f"collected/{member}.pem"
    made = run_json("consortium", "bundle", "collected", "wards/alder", "-o", "bundle.json")
    assert [(row["member"], row["role"]) for row in made["rows"]][-2:] == [
        ("south", "owner"),
        ("zoe", "analyst"),
    ]
    return made["digest"]


def members_of(party: str) -> list[str]:
    return sorted(path.stem for path in Path(f"wards/{party}/members").iterdir())


@pytest.mark.parametrize("sent", ["bundle.json", "collected"])
def test_all_certificates_at_once(sent: str) -> None:
    run(*NEW)
    digest = collect()
    for me in MEMBERS:
        told = run_json("consortium", "add", sent, f"wards/{me}", "--expect", digest.lower())
        others = [name for name in MEMBERS if name != me]
        assert (told["digest"], told["added"]) == (digest, others)
        assert members_of(me) == others
    report = run_json("consortium", "check", "wards/zoe", code=1)
    assert {row["fingerprint"] for row in report["rows"]} == {
        row["fingerprint"] for row in told["rows"]
    }
    assert report["digest"] == digest


def test_the_digest_is_confirmed_by_a_person(refused) -> None:
    run(*NEW)
    digest = collect()

    def answer(text: str, code: int) -> str:
        result = runner.invoke(app, ["consortium", "add", "bundle.json", "wards/zoe"], input=text)
        assert (result.exit_code == 0) == (code == 0), result.output
        return result.output

    for no in ("n\n", "\n", ""):
        said = answer(no, 1)
        assert digest in said
        assert "cedar" in said
        assert members_of("zoe") == []
    assert "zoe knows 5 other members" in answer("y\n", 0)
    assert members_of("zoe") == MEMBERS[:-1]
    # Nobody is asked where programs read.
    add = ["consortium", "add", "bundle.json", "wards/north"]
    assert "--expect" in refused(Code.OTHER_DIGEST, *add, "--format", "json")
    refused(Code.OTHER_DIGEST, *add, "--expect", "ABCD-EFGH")
    assert members_of("north") == []


def test_what_bundle_refuses(refused) -> None:
    run(*NEW)
    collect()
    bundle = ["consortium", "bundle", "collected", "wards/alder", "-o"]
    refused(Code.FILE_EXISTS, *bundle, "bundle.json")
    refused(Code.FILE_EXISTS, "keys", "wards/alder", "-o", "collected")
    Path("collected/zoe.pem").unlink()
    refused(Code.MISSING_CERTIFICATE, *bundle, "other.json")
    assert not Path("other.json").exists()
    expect = ["--expect", "ABCD"]
    refused(Code.BAD_PARAMETER, "consortium", "add", "collected/birch.pem", "wards/zoe", *expect)


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
    # A module that is loaded meanwhile would have it for good.
    for module in (certificates, reach):
        monkeypatch.setattr(module, "readable", lambda print_: ":".join(["AB"] * 32))
    run(*NEW)
    run("keys", "wards/alder")
    table = run("consortium", "check", "wards/alder", code=1)
    assert table.count(":".join(["AB"] * 8)) == 4
    assert ":AB:" in refused(Code.UNSAFE_FOLDER, "keys", "no:AB:folder")


def test_options_of_new() -> None:
    hosts = ["--hosts", "a.example,b.example:9999,[fd00::1]:80", "--first-port", "9000"]
    populations = ["--populations", "patients=3,staff=0.5:1e-8,days=inf"]
    policy = [
        *("--policy", "allow_exact=true", "--policy", "largest_epsilon_per_job = 2.5"),
        *("--policy", "allowed_posters=zoe, north", "--policy", 'allowed_protocols=["open-tree"]'),
    ]
    timeouts = ["--timeout", "step=120", "--timeout", "clock=5.5"]
    run(*NEW, *hosts, *populations, *policy, *timeouts, "--listen", "0.0.0.0", "--into", ".")
    for name in MEMBERS:
        config = PartyConfig.load(Path("wards") / name)
        places = [(server.host, server.ports) for server in config.servers]
        assert places == [
            ("a.example", (9000, 9001)),
            ("b.example", (9999, 10000)),
            ("fd00::1", (80, 81)),
        ]
        assert config.timeouts == Timeouts(step=120, clock=5.5)
        assert config.listen == ("0.0.0.0" if config.role == "server" else "")
        rules = Policy.load(config.folder)
        assert rules.populations == {
            "patients": Lifetime(epsilon=3.0),
            "staff": Lifetime(epsilon=0.5, delta=1e-8),
            "days": Lifetime(epsilon=float("inf")),
        }
        assert rules.allow_exact
        assert rules.largest_epsilon_per_job == 2.5
        assert rules.allowed_posters == ("zoe", "north")
        assert rules.allowed_protocols == ("open-tree",)
        assert rules.queries_per_model == 1000


def test_every_line_of_the_files_can_be_given() -> None:
    """Whatever may stand in policy.toml or under [timeouts] is an option of `new`."""
    rules = {
        "largest_epsilon_per_job": "0.5",
        "largest_delta_per_job": "1e-7",
        "allow_exact": "true",
        "allowed_protocols": "hidden-tree,open-tree",
        "allowed_analysts": "",
        "allowed_posters": "zoe",
        "largest_trees_per_job": "7",
        "largest_depth": "3",
        "largest_upload_bytes": "1000",
        "upload_bytes_per_owner": "2000",
        "runs_per_poster": "5",
        "state_bytes_per_member": "3000",
        "log_bytes": "70000",
        "approvers": "ann,bob",
        "approval_seconds": "3600",
        "queries_per_model": "11",
        "queries_per_analyst": "12",
        "open_metrics": "true",
    }
    assert set(rules) | {"populations"} == set(Policy.model_fields)
    given = [part for key, value in rules.items() for part in ("--policy", f"{key}={value}")]
    waits = [part for key in Timeouts.model_fields for part in ("--timeout", f"{key}=7.5")]
    run(*NEW, *given, *waits)
    policy = Policy.load(Path("wards/zoe"))
    usual = Policy.load(Path(run_json(*NEW, "--into", "..")["folders"]["zoe"]))
    for key in rules:
        assert getattr(policy, key) != getattr(usual, key), key
    timeouts = PartyConfig.load(Path("wards/zoe")).timeouts
    assert set(timeouts.model_dump().values()) == {7.5}


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
    for wrong in ("patients", "patients=", "patients=-1", "patients=nan", "a=1,a=2", "a=1:2"):
        assert "--populations" in refused(Code.BAD_PARAMETER, *NEW, "--populations", wrong)
    for wrong in ("allow_exact", "=1", "allow_exact=yes", "allow_exact=true\nlargest_depth=3"):
        refused(Code.BAD_PARAMETER, *NEW, "--policy", wrong)
    refused(Code.BAD_PARAMETER, *NEW, "--policy", "populations={}")
    refused(Code.BAD_PARAMETER, *NEW, "--timeout", "step=1", "--timeout", "step=2")
    refused(Code.BAD_POLICY_FILE, *NEW, "--policy", "epsilon=3")
    refused(Code.BAD_POLICY_FILE, *NEW, "--populations", "days=inf")
    refused(Code.BAD_PARTY_FILE, *NEW, "--timeout", "pause=3")
    refused(Code.BAD_PARTY_FILE, *NEW, "--timeout", "step=-3")
    refused(Code.BAD_PARTY_FILE, *NEW, "--hosts", "a,b,c:99999")
    refused(Code.BAD_PARTY_FILE, *NEW, "--hosts", "a,b,a:7601")
    refused(Code.BAD_PARTY_FILE, *NEW, "--listen", "no host")
    assert not Path("wards").exists()
    run(*NEW)
    refused(Code.FOLDER_EXISTS, *NEW)


def test_what_keys_and_add_refuse(refused) -> None:
    run(*NEW)
    refused(Code.UNSAFE_FOLDER, "keys", "nowhere")
    refused(Code.BAD_PARTY_FILE, "keys", "wards")
    assert "--days" in refused(Code.BAD_PARAMETER, "keys", "wards/alder", "--days", "0")
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
        assert "hedgerow keys" not in Path(f"wards/{me}/README.txt").read_text()
        report = run_json("consortium", "check", f"wards/{me}", code=1)
        assert report["rows"]
        # Nobody serves; whose certificate a party needs, it has.
        for row in report["rows"]:
            assert all("H882" in problem["found"] for problem in row["problems"]), row


def test_a_check_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    run(*NEW, "--study")
    asked = []

    def found(config):
        asked.append(config.name)
        down = [] if len(asked) > 2 else ["down"]
        return [SimpleNamespace(problems=down, to_dict=dict)]

    monkeypatch.setattr("hedgerow.parties.consortium.reach.check_consortium", found)
    monkeypatch.setattr("hedgerow.cli.parties.consortium._PAUSE", 0.0)
    run_json("consortium", "check", "wards/zoe", code=1)
    run_json("consortium", "check", "wards/zoe", "--wait", "30")
    assert len(asked) == 3


def test_keys_are_renewed(refused) -> None:
    run(*NEW, "--study")
    folder = "wards/zoe"
    refused(Code.BAD_PARAMETER, "keys", folder, "--renew", "--switch")
    refused(Code.BAD_PARAMETER, "keys", folder, "--unasked")
    refused(Code.NOT_RENEWED, "keys", folder, "--switch")
    said = run("keys", folder, "--renew", "--days", "60", "-o", "zoe-2.pem")
    assert "hedgerow keys --switch" in said
    assert Path("zoe-2.pem").read_text() == Path("wards/zoe/keys/next.pem").read_text()
    refused(Code.NOT_RENEWED, "keys", folder, "--renew")
    for member in MEMBERS[:-1]:
        # The old key has signed it: there is nothing to compare by telephone.
        assert "telephone" not in run("consortium", "add", "zoe-2.pem", f"wards/{member}")
    # Nobody serves here, so nobody can be asked.
    assert "--unasked" in refused(Code.NOT_RENEWED, "keys", folder, "--switch")
    before = run_json("consortium", "check", folder, code=1)["rows"][-1]
    made = run_json("keys", folder, "--switch", "--unasked")
    after = run_json("consortium", "check", folder, code=1)["rows"][-1]
    assert before["fingerprint"] != after["fingerprint"] == made["fingerprint"]
    assert not Path("wards/zoe/keys/next.key").exists()


def test_whoever_starts_a_command_is_warned_of_the_end() -> None:
    run(*NEW)
    for member in MEMBERS:
        run("keys", f"wards/{member}", "--days", "20" if member == "alder" else "60")
    for path in ("wards/alder", "wards/zoe"):
        for other in MEMBERS:
            if not path.endswith(other):
                run("consortium", "add", f"wards/{other}/keys/party.pem", path)
    commands = [
        ["consortium", "check"],
        ["runs", "list"],
        ["models", "list"],
        ["serve"],
        ["account", "show"],
    ]
    for folder, fix in (("wards/alder", "run `hedgerow keys --renew`"), ("wards/zoe", "ask alder")):
        for command in commands:
            if (folder, command) == ("wards/alder", ["serve"]):
                # It would serve; what it logs is tested beside the daemon.
                continue
            said = runner.invoke(app, [*command, folder])
            text = " ".join(said.stderr.split())
            assert "certificate of alder ends on" in text, (command, said.output)
            assert fix in text
    said = runner.invoke(app, ["consortium", "check", "wards/north"])
    assert "ends on" not in said.stderr
    (row, *_) = run_json("consortium", "check", "wards/zoe", code=1)["rows"]
    assert row["warnings"][0]["found"].startswith("certificate of alder ends on")
    assert "warning: certificate of alder" in run("consortium", "check", "wards/zoe", code=1)
