"""Attacks on a consortium, each refused with a number of its own. Where each of them is tested:

================================  ======  ====================================================
attack                            number  tests, besides those below
================================  ======  ====================================================
unknown certificate               H870    wire/service
unknown certificate of a server   H809    net/meeting wire/client
expired certificate               H855    wire/service consortium/members consortium/reach
right certificate, wrong role     H871    wire/service store/uploads runs/three_servers
right certificate, wrong role     H871    queries/answering
replayed upload                   H886    store/uploads
another epsilon at one server     H891    runs/manager runs/three_servers
run of another member             H930    runs/manager parties/end_to_end
analyst over budget (votes)       H207    queries/answering parties/end_to_end
analyst over budget (policy)      H858    queries/answering queries/batches store/library
policy violation                  H858    consortium/policy runs/admission runs/three_servers
policy violation                  H858    parties/end_to_end
oversized header                  H874    wire/service wire/requests
oversized payload                 H875    wire/service store/uploads
oversized frame among servers     H806    net/frames net/channel
path traversal in a name          H851    consortium/names store/durable store/uploads
path traversal in a name          H851    roles/catalogue
symlinked state folder            H854    store/durable store/uploads roles/uploading
world-readable key of a party     H810    consortium/members net/certificates
world-readable key of the state   H866    consortium/state_key
two daemons on one state folder   H899    roles/daemon
================================  ======  ====================================================

Below, all of them that one server can refuse alone are made against a `Daemon` as it is served.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.net.certificates import Identity, make_identity
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.roles.daemon import Daemon
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.wire.client import Reply, call
from hedgerow.parties.wire.requests import Body
from tests.parties.consortia import found, introduce, read_key, write_certificate
from tests.parties.free_ports import free_ports
from tests.parties.runs.run_servers import job
from tests.parties.store.test_uploads import Dealer
from tests.parties.wire.parties_calls import RawLine, head, refuses

ELSEWHERE = ("../../keys/party", "/etc/passwd", "a/../../b", "models/x", "..", "a\0b", "A", "")


def test_the_table_above_is_true() -> None:
    rows = [line.split() for line in (__doc__ or "").splitlines()]
    rows = [row for row in rows if row and "/" in row[-1]]
    paths = Path(__file__).parents[1].rglob("test_*.py")
    tests = {f"{path.parent.name}/{path.stem.removeprefix('test_')}": path for path in paths}
    assert len(rows) == 21
    for row in rows:
        at = next(k for k, word in enumerate(row) if word.startswith("H"))
        (code,) = [code for code in Code if code.number == row[at]]
        for name in row[at + 1 :]:
            text = tests[name].read_text()
            assert code.name in text or code.number in text, (row, name)


class Fort:
    """A server that is attacked; the other servers are away."""

    def __init__(self, parties: dict[str, PartyConfig]) -> None:
        self.parties = parties
        self.server = parties["birch"]

    def call(
        self, verb: str, fields: Any = None, payload: Any = None, by: Identity | str = "zoe"
    ) -> Reply:
        identity = self.parties[by].identity if isinstance(by, str) else by
        me = self.server.me
        pem = self.server.identity.pem
        return call((me.host, me.port), identity, pem, verb, fields, payload, name="birch")

    def files(self) -> set[Path]:
        return set(self.server.folder.parent.rglob("*"))


@pytest.fixture(scope="module")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    parties = found(tmp_path_factory.mktemp("fort"), first_port=free_ports())
    introduce(parties)
    # South's time is over since it was added.
    south = parties["south"]
    write_certificate(south.identity.certificate, "south", key=read_key(south), days=(-9, -1))
    kept = parties["birch"].certificate_file("south")
    kept.write_bytes(south.identity.certificate.read_bytes())
    made = Fort(parties)
    RunStore(made.server.state).accept(job(), "north")
    with Daemon(made.server, Policy.load(made.server.folder)):
        made.call("health")
        yield made


def test_an_unknown_certificate_of_a_known_name(fort: Fort, tmp_path: Path) -> None:
    mallory = make_identity(tmp_path, "zoe")
    refuses(Code.CALLER_UNKNOWN, lambda: fort.call("health", by=mallory))


def test_an_expired_certificate(fort: Fort) -> None:
    refuses(Code.CERTIFICATE_EXPIRED, lambda: fort.call("health", by="south"))


TRAIL = {"height": 0, "hash": ""}
WRONG = {
    "zoe": (
        "upload",
        "upload-check",
        "upload-withdraw",
        "terms",
        "run-ready",
        "run-go",
        "query-meet",
    ),
    "north": ("query", "query-meet"),
    "alder": ("upload", "upload-withdraw", "terms", "query", "run-stop"),
}


@pytest.mark.parametrize("who", WRONG)
def test_the_right_certificate_with_the_wrong_role(fort: Fort, who: str) -> None:
    for verb in WRONG[who]:
        refuses(Code.CALLER_NOT_ALLOWED, lambda verb=verb: fort.call(verb, {}, by=who))


def test_a_server_that_is_not_the_first_leads_nothing(fort: Fort) -> None:
    fields = {
        "run": job().run_id,
        "hash": job().hash,
        "attempt": 1,
        "session": "0" * 32,
        "members": ["alder", "birch", "cedar"],
        "trail": TRAIL,
    }
    for by in ("cedar", "north"):
        refuses(Code.CALLER_NOT_ALLOWED, lambda by=by: fort.call("run-go", fields, by=by))
    # Owners take part in some runs, and not in this one.
    asked = {key: fields[key] for key in ("run", "hash", "trail")}
    refuses(Code.CALLER_NOT_ALLOWED, lambda: fort.call("run-ready", asked, by="north"))
    unsigned = job("unsigned").to_toml().encode()
    refuses(Code.NOT_SIGNED, lambda: fort.call("job", {}, unsigned, by="alder"))
    meet = {"session": "0" * 32}
    refuses(Code.CALLER_NOT_ALLOWED, lambda: fort.call("query-meet", meet, by="cedar"))


def test_a_replayed_upload(fort: Fort) -> None:
    fields, payload = Dealer("again").payload(1)
    fort.call("upload", fields, payload, by="north")
    before = fort.files()
    refuses(Code.UPLOAD_ID_USED, lambda: fort.call("upload", fields, payload, by="north"))
    refuses(
        Code.UPLOAD_ID_USED,
        lambda: fort.call("upload-check", {"id": "again", "population": "patients"}, by="north"),
    )
    assert fort.files() == before


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"plan": {"noise": "splits+leaves", "epsilon": 1.01}}, "largest_epsilon_per_job"),
        ({"plan": {"noise": "none"}}, "allow_exact"),
        (
            {"protocol": "open-tree", "plan": {"noise": "leaves", "epsilon": 1.0}},
            "allowed_protocols",
        ),
        (
            {"population": "staff", "plan": {"noise": "splits+leaves", "epsilon": 1.0}},
            "populations",
        ),
    ],
)
def test_jobs_beyond_the_policy(fort: Fort, changes: dict[str, Any], line: str) -> None:
    before = fort.files()
    text = job("bold", **changes).to_toml().encode()
    for fields in ({"check": True}, {}):
        error = refuses(
            Code.POLICY_REFUSES, lambda fields=fields: fort.call("job", fields, text, by="north")
        )
        assert line in error.expected
    assert fort.files() == before


def test_jobs_and_runs_of_others(fort: Fort) -> None:
    """An analyst spends no budget by posting, and ends no run that an owner has posted."""
    fields, payload = Dealer("ward-1").payload(1)
    fort.call("upload", fields, payload, by="north")
    mine = job("mine", uploads=["ward-1"], plan={"noise": "splits+leaves", "epsilon": 1.0})
    text = mine.to_toml().encode()
    for fields in ({"check": True}, {}):
        error = refuses(
            Code.POLICY_REFUSES, lambda fields=fields: fort.call("job", fields, text, by="zoe")
        )
        assert "allowed_posters" in error.expected
    assert fort.call("job", {}, text, by="north").fields["by"] == "north"
    run = {"run": mine.run_id}
    first, second = run | {"generation": 0}, run | {"generation": 1}
    refuses(Code.RUN_OF_ANOTHER, lambda: fort.call("run-stop", first, by="zoe"))
    assert fort.call("run-show", run).fields["state"] == "accepted"
    assert fort.call("run-stop", first, by="north").fields["state"] == "stopped"
    refuses(Code.RUN_OF_ANOTHER, lambda: fort.call("run-resume", second, by="zoe"))
    # Whoever passes on what somebody else has said needs that one's signature.
    for by, named in (("alder", {}), ("alder", {"by": "north"}), ("zoe", {"by": "north"})):
        fields = second | named | {"signature": "00" * 64}
        refuses(
            Code.NOT_SIGNED, lambda fields=fields, by=by: fort.call("run-resume", fields, by=by)
        )
    assert fort.call("run-show", run).fields["state"] == "stopped"


def test_an_upload_for_a_population_that_is_not_listed(fort: Fort) -> None:
    fields, payload = Dealer("staff-1", population="staff").payload(1)
    refuses(Code.POLICY_REFUSES, lambda: fort.call("upload", fields, payload, by="north"))


def test_oversized_frames(fort: Fort) -> None:
    me, identity = fort.server.me, fort.parties["zoe"].identity
    line = RawLine((me.host, me.port), identity, fort.server.identity.pem)
    line.send(head("health", fields="{" + "x" * (1 << 17))[: 1 << 17])
    assert line.refusal().code is Code.HEADER_TOO_LARGE
    line.close()

    def endless() -> Iterator[bytes]:
        raise AssertionError("asked for bytes that are too many")
        yield b""

    for verb, by in (("job", "zoe"), ("upload", "north"), ("query", "zoe")):
        body = Body(1 << 33, endless())
        refuses(
            Code.PAYLOAD_TOO_LARGE,
            lambda verb=verb, by=by, body=body: fort.call(verb, {}, body, by),
        )


@pytest.mark.parametrize("name", ELSEWHERE)
def test_names_that_lead_elsewhere(fort: Fort, name: str) -> None:
    query = {"model": name, "id": "0" * 32, "n": 1, "what": "class", "again": False}
    before = fort.files()
    for verb, fields, by in (
        ("models", {"model": name}, "zoe"),
        ("query", query, "zoe"),
        ("run-show", {"run": name}, "zoe"),
        ("run-stop", {"run": name, "generation": 0}, "zoe"),
        ("run-resume", {"run": name, "generation": 1}, "zoe"),
        ("run-ready", {"run": name, "hash": "0" * 64, "trail": TRAIL}, "alder"),
        ("upload-check", {"id": name, "population": "patients"}, "north"),
        ("upload-check", {"id": "fine", "population": name}, "north"),
    ):
        refuses(
            Code.BAD_NAME,
            lambda verb=verb, fields=fields, by=by: fort.call(verb, fields, by=by),
        )
    text = job("ward").to_toml()
    for key, value in (("model", "ward-model"), ("name", "ward"), ("population", "patients")):
        bad = text.replace(f'{key} = "{value}"', f"{key} = {json.dumps(name)}")
        assert bad != text
        refuses(Code.BAD_JOB, lambda bad=bad: fort.call("job", {}, bad.encode(), by="north"))
    assert fort.files() == before


@pytest.fixture
def alone(tmp_path: Path) -> PartyConfig:
    parties = found(tmp_path, first_port=free_ports())
    introduce(parties)
    return parties["birch"]


def served(config: PartyConfig) -> None:
    with Daemon(PartyConfig.load(config.folder), Policy.load(config.folder)):
        pass


def test_a_symlinked_state_folder(alone: PartyConfig, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (alone.folder / "state").symlink_to(tmp_path / "elsewhere")
    refuses(Code.UNSAFE_FOLDER, lambda: served(alone))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("part", ["uploads", "runs", "models", "accounts"])
def test_a_symlink_in_the_state_folder(alone: PartyConfig, tmp_path: Path, part: str) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    alone.state.root.joinpath(part).symlink_to(tmp_path / "elsewhere")
    fort = Fort({config.name: config for config in _neighbours(alone)})

    def used() -> None:
        with Daemon(alone, Policy.load(alone.folder)):
            fort.call("models", {})
            fields, payload = Dealer("north-1").payload(1)
            fort.call("upload", fields, payload, by="north")
            text = job("ward", plan={"noise": "splits+leaves", "epsilon": 1.0}).to_toml()
            fort.call("job", {}, text.encode(), by="north")

    refuses(Code.UNSAFE_FOLDER, used)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def _neighbours(config: PartyConfig) -> list[PartyConfig]:
    folders = sorted(path.parent for path in config.folder.parent.glob("*/party.toml"))
    return [PartyConfig.load(folder) for folder in folders]


@pytest.mark.parametrize(
    ("path", "code"),
    [("keys/party.key", Code.BAD_KEY_FILE), ("keys/state.key", Code.STATE_KEY_EXPOSED)],
)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read(alone: PartyConfig, path: str, code: Code, mode: int) -> None:
    (alone.folder / path).chmod(mode)
    refuses(code, lambda: served(alone))
    (alone.folder / path).chmod(0o600)
    served(alone)


def test_a_folder_that_others_can_read(alone: PartyConfig) -> None:
    alone.folder.chmod(0o755)
    refuses(Code.UNSAFE_FOLDER, lambda: served(alone))
