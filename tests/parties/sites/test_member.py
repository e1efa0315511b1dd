"""Sites among the members: they take calls, and speak to each other."""

import tomllib
from pathlib import Path

import pytest
import tomli_w

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.reach import check_consortium
from tests.parties.consortia import OWNERS, SERVERS, introduce
from tests.parties.wire.parties_calls import refuses

SITES = ["club", "observatory"]


def founded(folder: Path, *servers: str, owners: tuple[str, ...] = (), **options):
    members = list_members(servers, owners, sites=SITES, first_port=7700, **options)
    made = found_consortium(folder, "tennis", members)
    return {path.name: PartyConfig.load(path) for path in made}


def test_sites_alone(tmp_path: Path) -> None:
    hosts = ["club.example", "sky.example"]
    parties = founded(tmp_path, hosts=hosts)
    club = parties["club"]
    assert [(m.name, m.host, m.port) for m in club.sites] == [
        ("club", "club.example", 7700),
        ("observatory", "sky.example", 7710),
    ]
    assert [m.name for m in club.members if club.speaks_to(m)] == ["observatory"]
    text = (club.folder / "README.txt").read_text()
    assert "hedgerow site serve" in text
    assert "observatory" in text
    # The protocol may be proposed; what it reveals must be allowed by hand.
    policy = Policy.load(club.folder)
    assert "ppid3" in policy.allowed_protocols
    assert not policy.allow_exact


def test_beside_servers_and_a_coordinator(tmp_path: Path) -> None:
    parties = founded(tmp_path, *SERVERS, owners=tuple(OWNERS), coordinator="delta")
    club = parties["club"]
    assert (parties["delta"].coordinator.port, club.me.port) == (7730, 7740)
    assert [m.name for m in club.members if club.speaks_to(m)] == [*SERVERS, "observatory"]
    assert "topdown" in Policy.load(club.folder).allowed_protocols


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["members"][1].update(port=0), "a site needs port"),
        (lambda d: d["members"][1].update(run_port=9), "no other"),
        (lambda d: d["members"][1].update(port=7700, host="127.0.0.1"), "used twice"),
        (lambda d: d["members"].pop(1), "3 servers"),
    ],
)
def test_what_is_refused(tmp_path: Path, change, words: str) -> None:
    club = founded(tmp_path)["club"]
    path = club.folder / "party.toml"
    data = tomllib.loads(path.read_text())
    change(data)
    path.write_text(tomli_w.dumps(data))
    assert words in refuses(Code.BAD_PARTY_FILE, lambda: PartyConfig.load(club.folder)).found


def test_one_site_is_none() -> None:
    refuses(Code.BAD_PARTY_FILE, lambda: list_members((), (), sites=["club"]))


def test_a_check_reaches_for_the_other_sites(tmp_path: Path) -> None:
    parties = founded(tmp_path)
    introduce(parties)
    asked = []
    findings = check_consortium(parties["club"], lambda config, member: asked.append(member.name))
    assert asked == ["observatory"]
    assert all(finding.needed for finding in findings)
