"""A daemon as one object: what it refuses to begin, what it tells, and that it ends cleanly."""

import json
import logging
import socket
from pathlib import Path

import pytest

from hedgerow import __version__
from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import make_keys
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.roles.daemon import LOG_FILE, Daemon, logging_to
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.requests import Fields
from tests.parties.consortia import found, introduce
from tests.parties.free_ports import free_ports
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, PartyConfig]:
    made = found(tmp_path, first_port=free_ports())
    introduce(made)
    return made


def daemon(config: PartyConfig) -> Daemon:
    return Daemon(config, Policy.load(config.folder))


def health(parties: dict[str, PartyConfig], by: str) -> Fields:
    birch, who = parties["birch"], parties[by]
    address = (birch.me.host, birch.me.port)
    return call(address, who.identity, birch.identity.pem, "health", name="birch").fields


@pytest.mark.parametrize("by", ["alder", "north", "zoe"])
def test_every_member_hears_how_it_is(parties: dict[str, PartyConfig], by: str) -> None:
    with daemon(parties["birch"]):
        told = health(parties, by)
    assert told["version"] == __version__
    assert told["members"] == parties[by].list_digest
    assert 0 <= told["seconds"] < 60
    refuses(Code.SERVICE_UNREACHABLE, lambda: health(parties, by))


def test_all_verbs_are_there(parties: dict[str, PartyConfig]) -> None:
    with daemon(parties["birch"]) as made:
        verbs = set(made.service._handlers)
    assert {"health", "upload", "job", "runs", "run-show", "models", "query"} <= verbs


def test_one_daemon_on_one_state_folder(parties: dict[str, PartyConfig]) -> None:
    with daemon(parties["birch"]):
        refuses(Code.ALREADY_SERVED, lambda: daemon(parties["birch"]))
        health(parties, "zoe")
    with daemon(parties["birch"]):
        health(parties, "zoe")


@pytest.mark.parametrize("which", ["port", "run_port"])
def test_a_port_that_is_taken_and_what_is_let_go_then(
    parties: dict[str, PartyConfig], which: str
) -> None:
    birch = parties["birch"]
    with socket.create_server((birch.me.host, getattr(birch.me, which))):
        refuses(Code.CANNOT_LISTEN, lambda: daemon(birch))
    # The state folder and the other port are free again.
    with daemon(birch):
        health(parties, "north")


def test_analysts_do_not_serve(parties: dict[str, PartyConfig]) -> None:
    refuses(Code.WRONG_ROLE, lambda: daemon(parties["zoe"]))


def test_an_owner_serves_without_being_called(parties: dict[str, PartyConfig]) -> None:
    """It fetches letters from the first server, which may ask it what it asks others."""
    with daemon(parties["alder"]) as server, daemon(parties["north"]) as owner:
        assert (owner.service, owner.port) == (None, None)
        fields = {"run": "none-0123", "hash": "0" * 64, "trail": {"height": 0, "hash": ""}}
        for seconds in (60.0, 30.0):
            refuses(
                Code.UNKNOWN_RUN,
                lambda s=seconds: server.inbox.ask("north", "run-ready", fields, seconds=s),
            )
        told = server.inbox.ask("north", "health", {}, seconds=60.0).fields
        assert told["version"] == __version__
        error = refuses(
            Code.CALLER_NOT_ALLOWED,
            lambda: server.inbox.ask(
                "north", "run-stop", {"run": "none-0123", "generation": 0}, seconds=60.0
            ),
        )
        assert "alder" in error.found
        refuses(Code.BAD_REQUEST, lambda: server.inbox.ask("north", "run-go", {}, seconds=60.0))
        refuses(Code.UNKNOWN_VERB, lambda: server.inbox.ask("north", "upload", {}, seconds=60.0))
        # Nobody fetches for somebody who is not there.
        refuses(
            Code.SERVICE_UNREACHABLE, lambda: server.inbox.ask("south", "health", {}, seconds=0.2)
        )


def test_without_keys_or_certificates_of_the_others(tmp_path: Path) -> None:
    made = found(tmp_path, first_port=free_ports())
    refuses(Code.MISSING_CERTIFICATE, lambda: daemon(made["alder"]))
    make_keys(made["alder"])
    error = refuses(Code.MISSING_CERTIFICATE, lambda: daemon(made["alder"]))
    assert "birch" in error.found
    assert not (made["alder"].folder / "state" / "daemon.lock").exists()


def test_logs_are_private_lines(parties: dict[str, PartyConfig]) -> None:
    birch = parties["birch"]
    before = logging.getLogger("hedgerow").handlers[:]
    with logging_to(birch, Policy.load(birch.folder)), daemon(birch):
        health(parties, "zoe")
    assert logging.getLogger("hedgerow").handlers == before
    path = birch.folder / "state" / LOG_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["what"] for line in lines if "what" in line] == ["started", "stopping", "stopped"]
    assert [line["verb"] for line in lines if line.get("caller") == "zoe"] == ["health"]


def test_a_policy_that_has_changed_is_used_after_a_reload(parties: dict[str, PartyConfig]) -> None:
    birch = parties["birch"]
    path = birch.folder / "policy.toml"
    before = path.read_text()
    with daemon(birch) as made:
        held = [made.policy, made.answers.policy, made.runs.policy, made.runs.accounts.policy]
        path.write_text(before.replace("queries_per_model = 1000", "queries_per_model = 7"))
        assert {policy.queries_per_model for policy in held} == {1000}
        assert made.reload()
        assert {policy.queries_per_model for policy in held} == {7}
        # A refusal names the line as it is now.
        error = refuses(
            Code.POLICY_REFUSES,
            lambda: held[1].check_queries("zoe", rows=8, by_analyst=0, by_all=0),
        )
        assert "queries_per_model = 7" in error.expected


def test_a_file_that_cannot_be_used_changes_nothing(
    parties: dict[str, PartyConfig], caplog: pytest.LogCaptureFixture
) -> None:
    birch = parties["birch"]
    policy, member = birch.folder / "policy.toml", birch.certificate_file("zoe")
    good = {path: path.read_text() for path in (policy, member)}
    with daemon(birch) as made, caplog.at_level(logging.ERROR, "hedgerow"):
        policy.write_text(good[policy].replace("queries_per_model = 1000", "queries_per_model = 7"))
        member.write_text("nothing")
        assert not made.reload()
        assert made.policy.queries_per_model == 1000
        assert health(parties, "zoe")["version"] == __version__
        assert caplog.records[-1].event["outcome"] == Code.WRONG_CERTIFICATE.number
        member.write_text(good[member])
        policy.write_text("nothing = 1")
        assert not made.reload()
        assert caplog.records[-1].event["outcome"] == Code.BAD_POLICY_FILE.number
        assert caplog.records[-1].event["fix"]
        policy.write_text(good[policy])
        assert made.reload()


def test_certificates_that_come_and_go(parties: dict[str, PartyConfig]) -> None:
    birch = parties["birch"]
    path = birch.certificate_file("zoe")
    text = path.read_text()
    path.unlink()
    with daemon(birch) as made:
        refuses(Code.CALLER_UNKNOWN, lambda: health(parties, "zoe"))
        path.write_text(text)
        path.chmod(0o600)
        refuses(Code.CALLER_UNKNOWN, lambda: health(parties, "zoe"))
        assert made.reload()
        assert health(parties, "zoe")["version"] == __version__
        path.unlink()
        assert made.reload()
        refuses(Code.CALLER_UNKNOWN, lambda: health(parties, "zoe"))
        assert health(parties, "north")["version"] == __version__


def test_another_list_of_members_wants_a_restart(
    parties: dict[str, PartyConfig], caplog: pytest.LogCaptureFixture
) -> None:
    birch = parties["birch"]
    path = birch.folder / "party.toml"
    with daemon(birch) as made, caplog.at_level(logging.INFO, "hedgerow"):
        assert made.reload()
        assert "found" not in caplog.records[-1].event
        path.write_text(path.read_text().replace("rejoin = 600", "rejoin = 700"))
        assert made.reload()
        assert "restart" in caplog.records[-1].event["found"]
        assert made.config.timeouts.rejoin == birch.timeouts.rejoin


def test_a_log_that_is_a_link_is_not_followed(
    parties: dict[str, PartyConfig], tmp_path: Path
) -> None:
    birch = parties["birch"]
    (birch.state.root / LOG_FILE).symlink_to(tmp_path / "elsewhere")

    def write() -> None:
        with logging_to(birch, Policy.load(birch.folder)):
            pass

    refuses(Code.UNSAFE_FOLDER, write)
    assert not (tmp_path / "elsewhere").exists()
