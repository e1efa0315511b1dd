"""What `consortium check` finds, and which fix it offers."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from hedgerow import __version__
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import tls_context
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.reach import (
    Finding,
    Health,
    Probe,
    ask_health,
    check_consortium,
    check_own,
)
from hedgerow.parties.roles.daemon import Daemon
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.handlers import Caller, Incoming, Verb
from hedgerow.parties.wire.service import Service
from tests.parties.consortia import found, introduce, read_key, silent_ports, write_certificate
from tests.parties.free_ports import free_ports
from tests.parties.wire.parties_calls import refuses


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answer one call with `talk`, at the port that is given."""

    def answer() -> None:
        raw, _ = listener.accept()
        with raw, suppress(OSError):
            talk(raw)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.fixture
def met(tmp_path: Path) -> dict[str, PartyConfig]:
    parties = found(tmp_path)
    introduce(parties)
    return parties


def birch_at(port: int, **changes: str) -> Member:
    return Member(name="birch", role="server", port=port, run_port=1, **changes)


def tls_server(server: PartyConfig, trusted: list[str]) -> Callable[[socket.socket], None]:
    def talk(raw: socket.socket) -> None:
        certificates = [server.certificate(name) for name in trusted]
        context = tls_context(server.identity, certificates, server=True)
        with context.wrap_socket(raw, server_side=True) as stream:
            stream.recv(1)

    return talk


def failure(config: PartyConfig, port: int, host: str = "127.0.0.1") -> tuple[str, str]:
    """Return what is wrong with birch at a port, and what to do about it."""
    there = birch_at(port, host=host)
    members = tuple(there if one.name == "birch" else one for one in config.members)
    changed = config.model_copy(update={"members": members})
    changed._folder = config.folder

    def probe(config: PartyConfig, member: Member) -> Health | None:
        return ask_health(config, member) if member == there else None

    finding = next(one for one in check_consortium(changed, probe) if one.member == there)
    assert finding.reached is False
    (problem,) = finding.problems
    return problem.found, problem.fix


def test_nobody_there(met: dict[str, PartyConfig]) -> None:
    with silent_ports() as port:
        found_, fix = failure(met["zoe"], port)
        assert found_.startswith(f"{Code.SERVICE_UNREACHABLE.number} 127.0.0.1:{port}: ")
        assert "have birch start `hedgerow serve`" in fix


def test_a_host_that_no_name_can_be(met: dict[str, PartyConfig]) -> None:
    zoe = met["zoe"]
    for host in ("birch..example", f"{'b' * 64}.example"):
        ask = partial(call, (host, 7), zoe.identity, zoe.certificate("birch"), "health")
        refuses(Code.SERVICE_UNREACHABLE, ask)


def test_no_such_host(met: dict[str, PartyConfig]) -> None:
    found_, fix = failure(met["zoe"], 7, host="no.such.host.invalid")
    assert found_.startswith(f"{Code.SERVICE_UNREACHABLE.number} no.such.host.invalid:7: ")
    assert "compare host and port" in fix


def test_a_server_that_does_not_know_us(met: dict[str, PartyConfig]) -> None:
    with listening(tls_server(met["birch"], ["north"])) as port:
        found_, fix = failure(met["zoe"], port)
    assert found_.startswith(Code.CALLER_UNKNOWN.number)
    assert fix.startswith("send keys/party.pem to birch")


def test_somebody_else_in_a_servers_place(met: dict[str, PartyConfig]) -> None:
    with listening(tls_server(met["cedar"], ["zoe"])) as port:
        found_, fix = failure(met["zoe"], port)
    assert found_.startswith(Code.UNKNOWN_PEER.number)
    assert "--replace" in fix


def test_something_else_at_the_port(met: dict[str, PartyConfig]) -> None:
    def web(raw: socket.socket) -> None:
        raw.recv(10_000)
        raw.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def old(raw: socket.socket) -> None:
        context = tls_context(met["birch"].identity, [met["zoe"].identity.pem], server=True)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.wrap_socket(raw, server_side=True).close()

    for talk in (web, old, lambda raw: None):
        with listening(talk) as port:
            found_, fix = failure(met["zoe"], port)
        assert f"127.0.0.1:{port}: " in found_
        assert "port in party.toml" in fix


ROLES = ("server", "owner", "analyst")


@contextmanager
def serving(config: PartyConfig, fields: dict | None = None, verb: str = "health") -> Iterator[int]:
    """Answer requests as a server of the consortium."""

    def health(caller: Caller, asked: dict, payload: Incoming) -> tuple[dict, None]:
        return Health.of(config).to_fields() if fields is None else fields, None

    handlers = {verb: Verb(ROLES, health)}
    callers = known_callers(config)
    with Service(config.identity, callers, handlers, host="127.0.0.1", port=0) as service:
        yield service.address[1]


def test_health_is_asked_for(met: dict[str, PartyConfig]) -> None:
    with serving(met["birch"]) as port:
        for name in ("zoe", "north", "alder"):
            said = ask_health(met[name], birch_at(port, host="127.0.0.1"))
            assert said is not None
            assert (said.version, said.members) == (__version__, met["zoe"].list_digest)
            assert abs(said.clock - time.time()) < 10


def test_a_server_without_health(met: dict[str, PartyConfig]) -> None:
    with serving(met["birch"], verb="upload") as port:
        assert ask_health(met["zoe"], birch_at(port, host="127.0.0.1")) is None


@pytest.mark.parametrize("change", [{"clock": "noon"}, {"version": 1}, {"members": None}])
def test_a_malformed_health(met: dict[str, PartyConfig], change: dict) -> None:
    fields = Health.of(met["birch"]).to_fields() | change
    with serving(met["birch"], fields) as port, pytest.raises(HedgerowError) as caught:
        ask_health(met["zoe"], birch_at(port, host="127.0.0.1"))
    assert caught.value.code is Code.BAD_REPLY


def test_a_service_that_was_not_told_of_us(met: dict[str, PartyConfig]) -> None:
    (met["birch"].folder / "members" / "zoe.pem").unlink()
    with serving(met["birch"]) as port, pytest.raises(HedgerowError) as caught:
        ask_health(met["zoe"], birch_at(port, host="127.0.0.1"))
    assert caught.value.code is Code.CALLER_UNKNOWN


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
    # Jobs are passed on with the signature of who has posted them, so everybody knows everybody.
    assert set(problems(checked(parties["north"]))) == set(parties)


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
            "policy.toml allows birch, which is no owner or analyst or coordinator or site or peer",
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
    assert problems(findings) == {"alder": ["H804 127.0.0.1:7600: nobody"]}
    assert findings["alder"].reached is False
    assert findings["birch"].reached is True
    assert findings["birch"].version is None


@pytest.mark.parametrize("listen", ["", "0.0.0.0", "127.0.0.1"])
def test_a_party_asks_its_own_daemon(tmp_path: Path, listen: str) -> None:
    hosts = ["127.0.0.1"] * 3 if not listen else ["router.invalid"] * 3
    parties = found(tmp_path, hosts=hosts, first_port=free_ports())
    introduce(parties)
    path = parties["birch"].folder / "party.toml"
    path.write_text(path.read_text().replace('listen = ""', f'listen = "{listen}"'))
    birch = PartyConfig.load(path.parent)
    away = check_own(birch)
    assert away.reached is False
    assert "hedgerow serve" in away.problems[0].fix
    with Daemon(birch, Policy.load(birch.folder)):
        well = check_own(birch)
    assert well.reached
    assert well.problems == []
    assert well.address == f"127.0.0.1:{birch.me.port}"
    birch.identity.key.chmod(0o644)
    assert check_own(birch).problems[0].found.startswith("H810")
    with pytest.raises(HedgerowError) as caught:
        check_own(parties["zoe"])
    assert caught.value.code is Code.WRONG_ROLE
