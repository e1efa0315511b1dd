"""party.toml: what it says, and everything that it may not say."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import fingerprint
from hedgerow.parties.consortium.config import PartyConfig
from tests.parties.consortia import SERVERS, found, introduce


def refuses(code: Code, action) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code
    return caught.value


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, PartyConfig]:
    return found(tmp_path)


def changed(config: PartyConfig, change) -> HedgerowError:
    """Change the data of party.toml; return why it is refused."""
    path = config.folder / "party.toml"
    data = tomllib.loads(path.read_text())
    change(data)
    path.write_text(tomli_w.dumps(data))
    error = refuses(Code.BAD_PARTY_FILE, lambda: PartyConfig.load(config.folder))
    assert str(path) in error.found
    return error


def test_who_is_who(parties: dict[str, PartyConfig]) -> None:
    birch, zoe = parties["birch"], parties["zoe"]
    assert (birch.name, birch.role, birch.number) == ("birch", "server", 1)
    assert birch.me is birch.member("birch")
    assert [server.name for server in zoe.servers] == SERVERS
    assert zoe.member("north", "owner", "analyst").role == "owner"
    assert refuses(Code.WRONG_ROLE, lambda: zoe.number).found == "zoe, which is an analyst"
    refuses(Code.UNKNOWN_MEMBER, lambda: zoe.member("eve"))
    error = refuses(Code.UNKNOWN_MEMBER, lambda: zoe.member("zoee", "analyst"))
    assert error.found == "zoee (did you mean 'zoe'?)"
    # The right name in another role is as good as none.
    refuses(Code.WRONG_ROLE, lambda: zoe.member("north", "analyst"))
    refuses(Code.BAD_NAME, lambda: zoe.member("../north"))
    refuses(Code.BAD_NAME, lambda: zoe.certificate("../../keys/party"))


def test_the_list_is_the_same_at_all(parties: dict[str, PartyConfig]) -> None:
    assert len({config.list_digest for config in parties.values()}) == 1
    path = parties["zoe"].folder / "party.toml"
    before = path.read_text()
    for old, new in (('"south"', '"west"'), ('"analyst"', '"owner"'), ('"wards"', '"yards"')):
        path.write_text(before.replace(old, new))
        other = PartyConfig.load(path.parent)
        assert other.list_digest != parties["alder"].list_digest
    # One machine may be reached under different addresses.
    path.write_text(before.replace("127.0.0.1", "servers.example"))
    assert PartyConfig.load(path.parent).list_digest == parties["alder"].list_digest


def test_roster_and_identity(parties: dict[str, PartyConfig]) -> None:
    alder = parties["alder"]
    assert "hedgerow keys" in refuses(Code.MISSING_CERTIFICATE, lambda: alder.server_endpoints).fix
    zoe = parties["zoe"]
    assert "add CERT" in refuses(Code.MISSING_CERTIFICATE, lambda: zoe.server_endpoints).fix
    introduce(parties)
    roster = alder.server_endpoints
    assert [(m.host, m.port) for m in roster] == [("127.0.0.1", 7601 + 10 * i) for i in range(3)]
    assert [fingerprint(m.certificate) for m in roster] == [
        fingerprint(parties[name].identity.pem) for name in SERVERS
    ]
    alder.identity.check()
    assert alder.state.root == alder.folder / "state"


def test_hosts_and_listen(tmp_path: Path) -> None:
    hosts = [f"{'a' * 63}.xn--d1acufc-9.example", "10.0.0.7", "::ffff:10.0.0.7"]
    alder = found(tmp_path, hosts=hosts)["alder"]
    assert [server.host for server in alder.servers] == hosts
    path = alder.folder / "party.toml"
    path.write_text(path.read_text().replace('listen = ""', 'listen = "0.0.0.0"'))
    assert PartyConfig.load(alder.folder).listen == "0.0.0.0"
    assert "host name" in changed(alder, lambda data: data.update(listen="a b")).found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda d: d.update(nmae="alder"), "nmae"),
        (lambda d: d["timeouts"].update(patience=3), "patience"),
        (lambda d: d["members"][0].update(certificate="../x.pem"), "certificate"),
        (lambda d: d.pop("consortium"), "consortium"),
        (lambda d: d.update(name="eve"), "eve, is not among"),
        (lambda d: d.update(name="../alder"), "'../alder'"),
        (lambda d: d["members"].append(d["members"][3]), "north more than once"),
        (lambda d: d["members"].pop(1), "exactly 3 servers are expected, 2 listed"),
        (lambda d: d["members"].append(d["members"][0] | {"name": "d", "host": "d"}), "4 listed"),
        (lambda d: d["members"][1].update(name="a/b"), "'a/b'"),
        (lambda d: d["members"][3].update(role="boss"), "role"),
        (lambda d: d["members"][3].pop("role"), "role"),
        (lambda d: d["members"][3].update(host="127.0.0.1"), "never called"),
        (lambda d: d["members"][3].update(port=1), "never called"),
        (lambda d: d["members"][1].update(host=""), "host name"),
        (lambda d: d["members"][1].update(host="a; rm -rf"), "host name"),
        (lambda d: d["members"][1].update(host="birch..example"), "host name"),
        (lambda d: d["members"][1].update(host="dead..beef"), "host name"),
        (lambda d: d["members"][1].update(host="birch-.example"), "host name"),
        (lambda d: d["members"][1].update(host="b" * 64 + ".example"), "host name"),
        (lambda d: d["members"][1].update(host=".".join(["b" * 63] * 4)), "host name"),
        (lambda d: d["members"][1].update(host="birch\n"), "host name"),
        (lambda d: d["members"][1].update(port=0), "needs port"),
        (lambda d: d["members"][1].pop("run_port"), "needs port"),
        (lambda d: d["members"][1].update(port=65536), "65535"),
        (lambda d: d["members"][1].update(port="7610"), "port"),
        (lambda d: d["members"][1].update(port=7600), "127.0.0.1:7600 is used twice"),
        (lambda d: d["members"][1].update(run_port=7610), "127.0.0.1:7610 is used twice"),
        (lambda d: d["members"][1].update(query_port=7612), "a query_port of birch"),
        (lambda d: d["members"][1].update(count_port=7612), "a count_port of birch"),
        (lambda d: d["timeouts"].update(step=0), "step"),
        (lambda d: d["timeouts"].update(step=float("inf")), "step"),
        (lambda d: d["timeouts"].update(clock=float("nan")), "clock"),
        (lambda d: d.update(members={}), "members"),
    ],
)
def test_what_is_refused(parties: dict[str, PartyConfig], change, found: str) -> None:
    assert found in changed(parties["alder"], change).found


def test_a_file_of_a_version_with_another_port_says_which_lines_to_delete(
    parties: dict[str, PartyConfig],
) -> None:
    def older(document: Any) -> None:
        for k, member in enumerate(document["members"][:3]):
            member["query_port"] = 7602 + 10 * k

    error = changed(parties["alder"], older)
    assert "party.toml" in error.found
    assert "delete the lines query_port of alder, birch, cedar" in error.fix


def test_listen_is_for_servers(parties: dict[str, PartyConfig]) -> None:
    assert "servers alone" in changed(parties["zoe"], lambda d: d.update(listen="::1")).found


@pytest.mark.parametrize(
    "text", ["name = ", "name = 'a'\nname = 'b'\n", "a=" + "[" * 5000, "a=" + "9" * 5000, ""]
)
def test_what_is_no_toml(parties: dict[str, PartyConfig], text: str) -> None:
    folder = parties["alder"].folder
    (folder / "party.toml").write_text(text)
    refuses(Code.BAD_PARTY_FILE, lambda: PartyConfig.load(folder))


def test_files_that_are_none(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    folder = parties["alder"].folder
    path = folder / "party.toml"
    path.rename(tmp_path / "party.toml")
    refuses(Code.BAD_PARTY_FILE, lambda: PartyConfig.load(folder))
    path.symlink_to(tmp_path / "party.toml")
    refuses(Code.BAD_PARTY_FILE, lambda: PartyConfig.load(folder))


def test_folders_that_are_not_closed(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    folder = parties["alder"].folder
    (tmp_path / "link").symlink_to(folder)
    refuses(Code.UNSAFE_FOLDER, lambda: PartyConfig.load(tmp_path / "link"))
    (folder / "state").symlink_to(tmp_path)
    refuses(Code.UNSAFE_FOLDER, lambda: PartyConfig.load(folder).state)
    folder.chmod(0o750)
    refuses(Code.UNSAFE_FOLDER, lambda: PartyConfig.load(folder))
    refuses(Code.UNSAFE_FOLDER, lambda: PartyConfig.load(tmp_path / "none"))
