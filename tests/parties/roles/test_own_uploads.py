"""An owner sees what servers keep of its uploads, and takes them back for ever."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow import Consortium
from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.daemon import Daemon
from hedgerow.parties.roles.own_uploads import UploadClient
from hedgerow.parties.roles.owner_account import fetch_charges
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.uploads import UploadVerbs, WithdrawFields, read_manifest
from hedgerow.parties.wire.client import call_member
from hedgerow.parties.wire.handlers import Caller
from tests.parties.forks import fork
from tests.parties.roles.owner_wards import Wards, one
from tests.parties.roles.upload_servers import SERVERS, serving
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def wards(tmp_path: Path) -> Iterator[Wards]:
    made = Wards(tmp_path)
    with serving(made.parties, made.verbs):
        yield made


def folder(wards: Wards, name: str, id: str = "north-1") -> Path:
    return wards.parties[name].folder / "state" / "uploads" / id


def test_the_list_has_what_each_server_keeps(wards: Wards) -> None:
    assert UploadClient(wards.north).list() == ([], {})
    manifest = wards.upload().manifest
    job = one()
    wards.post(job)
    ((found,), refusals) = UploadClient(wards.north).list()
    assert refusals == {}
    assert found.is_well
    assert found.to_dict() == {
        **{key: value for key, value in manifest.summary().items() if key != "owner"},
        "runs": [job.run_id],
        "servers": dict.fromkeys(SERVERS, "kept"),
        "times": found.times,
    }
    for name in SERVERS:
        with open_store(wards.parties[name].state).snapshot() as made:
            assert found.times[name] == made.entries_of("upload")[0].time
    # Which runs name an upload is for its owner alone.
    reply = call_member(wards.parties["zoe"], wards.north.servers[0], "uploads")
    assert json.loads(reply.payload) == {"uploads": [manifest.summary()]}
    assert UploadClient(wards.parties["south"]).list() == ([], {})
    refuses(Code.WRONG_ROLE, lambda: UploadClient(wards.parties["zoe"]))


def test_a_withdrawn_upload_is_gone_and_what_was_charged_is_not(wards: Wards) -> None:
    wards.upload()
    job, later = one(), one("later")
    wards.post(job)
    wards.go(job)
    for made in wards.managers.values():
        made._close(made.store.get(job.run_id))
    spent = wards.spent("alder")
    assert spent > 0
    found = UploadClient(wards.north).withdraw("north-1")
    assert found.servers == dict.fromkeys(SERVERS, "withdrawn")
    assert found.is_whole
    for name in SERVERS:
        assert not folder(wards, name).exists()
        assert wards.spent(name) == spent
        with open_store(wards.parties[name].state).snapshot() as made:
            (told,) = made.entries_of("withdrawn")
        assert (told.fields()["id"], told.fields()["owner"]) == ("north-1", "north")
        refuses(
            Code.UPLOAD_WITHDRAWN, lambda n=name: read_manifest(wards.parties[n].state, "north-1")
        )
    # Neither a new job nor the id is taken any more, and nothing is charged for the attempt.
    refuses(Code.UPLOAD_WITHDRAWN, lambda: wards.post(later, "north"))
    assert wards.managers["alder"].store.find(later.run_id) is None
    refuses(Code.UPLOAD_ID_USED, lambda: wards.upload(seed=1))
    assert wards.spent("alder") == spent
    # The owner still hears of the charges, and of what it has withdrawn.
    assert fetch_charges(wards.north).refusals == {}
    (shown,) = Consortium(wards.north.folder).uploads()
    assert shown.servers == dict.fromkeys(SERVERS, "withdrawn")
    assert shown.runs == (job.run_id,)
    # Once more changes nothing.
    before = wards.trail("alder")
    assert Consortium(wards.north.folder).withdraw("north-1").servers == found.servers
    assert wards.trail("alder") == before


def test_not_while_a_run_is_open_and_not_by_others(wards: Wards) -> None:
    wards.upload()
    job = one()
    wards.post(job)
    client = UploadClient(wards.north)
    error = refuses(Code.UPLOAD_IN_USE, lambda: client.withdraw("north-1"))
    assert job.run_id in error.found
    south = UploadClient(wards.parties["south"])
    refuses(Code.CALLER_NOT_ALLOWED, lambda: south.withdraw("north-1"))
    refuses(Code.UNKNOWN_UPLOAD, lambda: client.withdraw("north-2"))
    # One that is open at a single server is enough, and the others have removed nothing.
    for name in SERVERS[:2]:
        wards.managers[name].end(job.run_id, "zoe")
    refuses(Code.UPLOAD_IN_USE, lambda: client.withdraw("north-1"))
    assert all(folder(wards, name).exists() for name in SERVERS)
    wards.managers["cedar"].end(job.run_id, "zoe")
    # A run that is not closed keeps shares of the rows; they go with the upload.
    states = [wards.parties[name].state for name in SERVERS]
    kept = [state.folder("runs", job.run_id, "stages") / "0.bin" for state in states]
    for path in kept:
        path.write_bytes(b"shares of a joined table")
    assert client.withdraw("north-1").is_whole
    assert not any(path.exists() for path in kept)
    # A run that was stopped is resumed in vain, before it is charged.
    made = wards.managers["alder"]
    made.resume(job.run_id, "zoe")
    go = (job.run_id, job.hash, 1, bytes(16), SERVERS, SERVERS[0])
    refuses(Code.UPLOAD_WITHDRAWN, lambda: made.go(*go))
    assert wards.spent("alder") == 0


def test_a_server_that_was_down_is_asked_again(tmp_path: Path) -> None:
    wards = Wards(tmp_path)
    with serving(wards.parties, wards.verbs):
        wards.upload()
    with serving(wards.parties, wards.verbs, SERVERS[:2]):
        found = UploadClient(wards.north).withdraw("north-1")
        assert found.servers == {"alder": "withdrawn", "birch": "withdrawn", "cedar": "unreachable"}
        assert (found.is_whole, set(found.refusals)) == (False, {"cedar"})
    assert folder(wards, "cedar").exists()
    with serving(wards.parties, wards.verbs):
        ((shown,), _) = UploadClient(wards.north).list()
        assert shown.servers == {"alder": "withdrawn", "birch": "withdrawn", "cedar": "kept"}
        assert not shown.is_well
        assert UploadClient(wards.north).withdraw("north-1").is_whole
    assert not folder(wards, "cedar").exists()


def _withdraw_and_die(config: Any, point: tuple[str, str, str]) -> None:
    """Withdraw at a server that is killed at a commit point."""
    from tests.parties.killing import sitecustomize  # noqa: F401

    (config.folder / "strikes").write_text(json.dumps([point]))
    policy, key = Policy.load(config.folder), operator_key(config.folder)
    fields = WithdrawFields(id="north-1")
    verbs = UploadVerbs(config, policy, key, RunStore(config.state))
    verbs.withdraw(Caller("north", "owner"), fields)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_between_the_row_and_the_file(tmp_path: Path, when: str) -> None:
    wards = Wards(tmp_path)
    with serving(wards.parties, wards.verbs):
        wards.upload()
    birch = wards.parties["birch"]
    child = fork(_withdraw_and_die, birch, ("withdraw an upload", when, "kill"))
    child.join(60)
    assert child.exitcode == -9
    assert folder(wards, "birch").exists()
    daemon = Daemon(birch, Policy.load(birch.folder))
    daemon.stop()
    assert folder(wards, "birch").exists() == (when == "before")
    if when == "before":
        assert read_manifest(birch.state, "north-1").id == "north-1"
    else:
        refuses(Code.UPLOAD_WITHDRAWN, lambda: read_manifest(birch.state, "north-1"))
