"""A coordinator among the members: in place of the three servers, or beside them."""

import tomllib
from pathlib import Path

import pytest
import tomli_w

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.reach import check_consortium
from hedgerow.parties.wire.client import ServerClient
from tests.parties.consortia import OWNERS, SERVERS, found, introduce
from tests.parties.wire.parties_calls import refuses


def founded(folder: Path, servers: list[str], **options) -> dict[str, PartyConfig]:
    members = list_members(servers, OWNERS, coordinator="delta", first_port=7700, **options)
    made = found_consortium(folder, "wards", members)
    return {path.name: PartyConfig.load(path) for path in made}


def changed(config: PartyConfig, change) -> HedgerowError:
    """Change the data of party.toml for a moment; return why it is refused."""
    path = config.folder / "party.toml"
    before = path.read_text()
    data = tomllib.loads(before)
    change(data)
    path.write_text(tomli_w.dumps(data))
    try:
        return refuses(Code.BAD_PARTY_FILE, lambda: PartyConfig.load(config.folder))
    finally:
        path.write_text(before)


def test_in_place_of_servers(tmp_path: Path) -> None:
    parties = founded(tmp_path, [], hosts=["delta.example"])
    delta, north = parties["delta"], parties["north"]
    coordinator = north.coordinator
    assert (coordinator.name, coordinator.host, coordinator.port) == (
        "delta",
        "delta.example",
        7700,
    )
    assert delta.servers == ()
    assert [m.name for m in delta.members if delta.speaks_to(m)] == OWNERS
    assert [m.name for m in north.members if north.speaks_to(m)] == ["delta"]
    assert refuses(Code.WRONG_ROLE, lambda: delta.number).found == "delta, which is a coordinator"
    # What needs servers says so, and does not fall over.
    assert "three servers" in refuses(Code.ROLE_MISSING, lambda: ServerClient(north)).expected
    for config in parties.values():
        assert "topdown" in Policy.load(config.folder).allowed_protocols
    text = (delta.folder / "README.txt").read_text()
    assert "north, south" in text
    assert "hedgerow topdown coordinate" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["members"][-1].update(port=0), "needs port"),
        (lambda d: d["members"][-1].update(run_port=7), "no other"),
        (lambda d: d["members"][-1].update(host=""), "host name"),
        (lambda d: d["members"].append(d["members"][-1] | {"name": "echo"}), "one coordinator"),
        (lambda d: d["members"].pop(), "not among the members"),
        (lambda d: d["members"][-1].update(role="analyst", host="", port=0), "3 servers"),
    ],
)
def test_what_is_refused(tmp_path: Path, change, words: str) -> None:
    assert words in changed(founded(tmp_path, [])["delta"], change).found


def test_beside_servers(tmp_path: Path) -> None:
    parties = founded(tmp_path, SERVERS)
    delta = parties["delta"]
    assert [server.name for server in delta.servers] == SERVERS
    assert delta.coordinator.port == 7730
    assert [server.topdown_port for server in delta.servers] == [7703, 7713, 7723]
    introduce(parties)
    assert [member.port for member in delta.roster("topdown")] == [7703, 7713, 7723]
    assert [member.port for member in delta.roster("run")] == [7701, 7711, 7721]
    assert "twice" in changed(delta, lambda d: d["members"][0].update(topdown_port=7711)).found
    assert "no other" in changed(delta, lambda d: d["members"][-1].update(topdown_port=7)).found
    assert all(config.speaks_to(delta.me) for name, config in parties.items() if name != "delta")
    assert "twice" in changed(delta, lambda d: d["members"][-1].update(port=7700)).found
    hosts = ["a.example", "b.example", "c.example"]
    short = refuses(
        Code.BAD_PARTY_FILE,
        lambda: list_members(SERVERS, OWNERS, coordinator="delta", hosts=hosts),
    )
    assert "delta" in short.expected
    refuses(Code.BAD_PARTY_FILE, lambda: list_members(SERVERS[:1], OWNERS, coordinator="delta"))


def test_a_consortium_without_one_is_as_before(tmp_path: Path) -> None:
    zoe = found(tmp_path)["zoe"]
    assert "none" in refuses(Code.ROLE_MISSING, lambda: zoe.coordinator).found
    error = refuses(Code.PORT_MISSING, lambda: zoe.roster("topdown"))
    assert "topdown_port" in error.expected
    assert "topdown" not in Policy.load(zoe.folder).allowed_protocols


def test_a_check_reaches_for_the_coordinator(tmp_path: Path) -> None:
    parties = founded(tmp_path, [])
    introduce(parties)
    asked = []
    findings = check_consortium(parties["north"], lambda config, member: asked.append(member.name))
    assert asked == ["delta"]
    assert {f.member.name: f.needed for f in findings} == {
        "north": True,
        "south": False,
        "delta": True,
    }
    assert findings[-1].to_dict()["address"] == "127.0.0.1:7700"
    # The coordinator calls nobody.
    asked.clear()
    findings = check_consortium(parties["delta"], lambda config, member: asked.append(member.name))
    assert asked == []
    assert all(finding.needed for finding in findings)
