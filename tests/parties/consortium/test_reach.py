"""What `consortium check` finds, and which fix it offers."""

import json
import time
from pathlib import Path

import pytest

from hedgerow import __version__
from hedgerow.errors import Code
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.probes import Health, Probe
from hedgerow.parties.consortium.reach import Finding, check_consortium
from tests.parties.consortia import found, introduce, read_key, write_certificate


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, PartyConfig]:
    return found(tmp_path)


def well(config: PartyConfig, server: Member) -> Health:
    return Health(__version__, time.time(), config.list_digest)


def checked(config: PartyConfig, probe: Probe = well) -> dict[str, Finding]:
    return {finding.member.name: finding for finding in check_consortium(config, probe)}


def problems(findings: dict[str, Finding]) -> dict[str, list[str]]:
    return {
        name: [problem.found for problem in finding.problems]
        for name, finding in findings.items()
        if finding.problems
    }


def test_all_is_well(parties: dict[str, PartyConfig]) -> None:
    introduce(parties)
    for config in parties.values():
        findings = checked(config)
        assert problems(findings) == {}
        for name, finding in findings.items():
            called = name in ("alder", "birch", "cedar") and name != config.name
            assert finding.reached is (True if called else None)
            assert finding.version == (__version__ if called else None)
            row = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
            assert row["ok"]
            assert len(row["fingerprint"]) == 95


def test_before_certificates_are_exchanged(parties: dict[str, PartyConfig]) -> None:
    findings = checked(parties["alder"])
    assert set(problems(findings)) == set(parties)
    assert findings["alder"].problems[0].fix == "run `hedgerow keys`"
    assert "ask north for its keys/party.pem" in findings["north"].problems[0].fix
    # An owner speaks to servers alone.
    findings = checked(parties["north"])
    assert set(problems(findings)) == {"alder", "birch", "cedar", "north"}
    assert not findings["south"].needed


def test_bad_certificates(parties: dict[str, PartyConfig]) -> None:
    introduce(parties)
    alder = parties["alder"]
    members = alder.folder / "members"
    write_certificate(members / "birch.pem", "birch", days=(-9, -1))
    write_certificate(members / "cedar.pem", "cedar", key=read_key(parties["north"]))
    write_certificate(members / "south.pem", "north")
    (members / "zoe.pem").write_text("none")
    found_ = problems(checked(alder))
    assert set(found_) == {"birch", "north", "south", "zoe"}
    assert Code.CERTIFICATE_EXPIRED.number in found_["birch"][0]
    assert found_["north"] == ["the same key as cedar"]
    assert Code.WRONG_CERTIFICATE.number in found_["south"][0]


def test_own_key_and_policy(parties: dict[str, PartyConfig]) -> None:
    introduce(parties)
    alder = parties["alder"]
    policy = alder.folder / "policy.toml"
    policy.write_text(policy.read_text().replace('["zoe"]', '["zoe", "north"]'))
    policy.write_text(policy.read_text().replace('["north", "south"]', '["birch", "south"]'))
    assert problems(checked(alder)) == {
        "alder": [
            "policy.toml allows north, which is no analyst",
            "policy.toml allows birch, which is no owner or analyst",
        ]
    }
    policy.write_text("allow_exact = true")
    alder.identity.key.chmod(0o604)
    findings = checked(alder)
    key, rules = problems(findings)["alder"]
    assert key.startswith(f"{Code.BAD_KEY_FILE.number} mode 0604")
    assert rules.startswith(Code.BAD_POLICY_FILE.number)
    # Nobody is called with a key that others may have read.
    assert findings["birch"].reached is None


@pytest.mark.parametrize(
    ("health", "found"),
    [
        ({"version": "9.9"}, f"Hedgerow 9.9 there, {__version__} here"),
        ({"clock": time.time() + 3600}, "its clock differs by +"),
        ({"clock": time.time() - 3600}, "its clock differs by -"),
        ({"clock": float("nan")}, "its clock differs by +nan s"),
        ({"members": "00"}, "it has another list of members"),
    ],
)
def test_what_a_server_says(parties: dict[str, PartyConfig], health: dict, found: str) -> None:
    introduce(parties)

    def probe(config: PartyConfig, server: Member) -> Health:
        said = {"version": __version__, "clock": time.time(), "members": config.list_digest}
        return Health(**said | (health if server.name == "birch" else {}))

    found_ = problems(checked(parties["zoe"], probe))
    assert list(found_) == ["birch"]
    assert found_["birch"][0].startswith(found)


def test_errors_of_a_probe(parties: dict[str, PartyConfig]) -> None:
    introduce(parties)

    def probe(config: PartyConfig, server: Member) -> Health | None:
        if server.name == "alder":
            raise Code.PEER_GONE.error(found="nobody", fix="call again")
        return None

    findings = checked(parties["zoe"], probe)
    assert problems(findings) == {"alder": ["H804 nobody"]}
    assert findings["alder"].reached is False
    assert findings["birch"].reached is True
    assert findings["birch"].version is None
