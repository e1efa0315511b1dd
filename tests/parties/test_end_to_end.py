"""A consortium from its first folder to answers after a restart, through the command line alone.

Every party is a folder of its own, every server a process of its own, and every command a process.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.state_key import operator_key, read_state_key
from hedgerow.parties.roles.uploading import encode_part, place_records
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.store import job_of_run
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.models import open_model
from hedgerow.parties.store.uploads import open_upload
from hedgerow.privacy import Leakage
from hedgerow.protocols.sharing.join import openings
from hedgerow.protocols.sharing.table import TaggedTable
from hedgerow.protocols.sharing.uploaded import planes_of
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import Dealt, bits_of_parts
from hedgerow.secure.secret import pack
from tests.parties.cli_town import ANALYST, OWNERS, PARTIES, SERVERS, CliTown, cli_town
from tests.parties.consortia import stray_files
from tests.parties.roles.upload_servers import DOMAIN, people, reveal, write_csv

ROWS, SLOTS, ASKED = 300, 350, 40
COLUMNS = {"north": ["id", "age", "ill"], "south": ["id", "ward", "sex"]}
HELD = {"north": range(270), "south": range(20, 300)}
JOB = """
name = "illness"
protocol = "hidden-tree"
model = "illness-1"
population = "patients"
uploads = ["north-1", "south-1"]
partition = "vertical"
analysts = ["zoe"]
[plan]
noise = "splits+leaves"
epsilon = {epsilon}
max_depth = 2
[domain]
file = "domain.toml"
"""
# What a log may tell.
LOGGED = {
    *("time", "level", "what", "address", "version", "finished", "message"),
    *("caller", "role", "verb", "outcome", "found", "bytes_in", "bytes_out", "id", "seconds"),
    *("run", "state", "attempt", "worker", "session", "model", "queries", "rows", "batch", "more"),
}


class Story:
    """What happened, for the tests to look at."""

    def __init__(self, town: CliTown, table: pa.Table) -> None:
        self.town, self.table = town, table
        self.check: dict[str, Any] = {}
        self.uploads: dict[str, Any] = {}
        self.training: list[dict[str, Any]] = []
        self.first: dict[str, Any] = {}
        self.second: dict[str, Any] = {}
        self.exits: list[int | None] = []

    @property
    def run(self) -> str:
        return str(self.training[0]["run"])

    def config(self, party: str) -> PartyConfig:
        return PartyConfig.load(self.town.home / party)


def upload(town: CliTown, owner: str, id: str) -> dict[str, Any]:
    common = ("--domain", town.root / "domain.toml", "--population", "patients", "--id", id)
    aligned = ("--ids", "id", "--align-key", town.root / "align.key")
    return town.by(owner, "upload", town.root / f"{owner}.csv", *common, *aligned)[0]


def ask(town: CliTown, *more: str) -> dict[str, Any]:
    return town.by(ANALYST, "query", "illness-1", town.root / "rows.csv", *more)[0]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    root = tmp_path_factory.mktemp("story")
    table = people(ROWS)
    (root / "domain.toml").write_text(DOMAIN.model_copy(update={"capacity": SLOTS}).to_toml())
    (root / "job.toml").write_text(JOB.format(epsilon=1.0))
    (root / "greedy.toml").write_text(JOB.format(epsilon=1.5))
    # The owners hold columns of people of whom most are the same, each in an order of its own.
    for seed, (owner, columns) in enumerate(COLUMNS.items()):
        order = np.random.default_rng(seed).permutation(HELD[owner])
        write_csv(root / f"{owner}.csv", table.select(columns).take(order))
    write_csv(root / "rows.csv", table.select(["sex", "age", "ward"]).slice(0, ASKED))
    with cli_town(root) as town:
        told = Story(town, table)
        told.check = town.by(ANALYST, "consortium", "check")[0]
        assert town.hedgerow("align-key", root / "align.key").returncode == 0
        told.uploads = {owner: upload(town, owner, f"{owner}-1") for owner in OWNERS}
        told.training = town.by("north", "train", root / "job.toml")
        told.first = ask(town)
        told.exits = town.stop()
        town.start()
        told.second = ask(town, "--proba")
        yield told


def test_all_is_well_before_the_first_upload(story: Story) -> None:
    rows = {row["member"]: row for row in story.check["rows"]}
    assert story.check["ok"]
    assert list(rows) == list(PARTIES)
    assert all(rows[name]["reached"] for name in SERVERS)


def test_uploads_are_bits_of_slots(story: Story) -> None:
    for owner, receipt in story.uploads.items():
        assert (receipt["ok"], receipt["slots"]) == (True, SLOTS)
        assert receipt["id"] == f"{owner}-1"


def test_training_is_followed_to_its_end(story: Story) -> None:
    last = story.training[-1]
    assert story.training[0]["event"] == "posted"
    assert (last["state"], last["attempt"], last["error"]) == ("done", 1, None)
    assert last["parties"] == dict.fromkeys(SERVERS, "done")
    assert last["bytes"] > 0


def test_answers_are_the_same_after_a_restart_of_all_servers(story: Story) -> None:
    before = [row["class"] for row in story.first["rows"]]
    after = [row["class"] for row in story.second["rows"]]
    assert len(before) == ASKED
    assert before == after
    truth = story.table.column("ill").to_pylist()[:ASKED]
    # Two of three wards decide, the third is a coin; the larger class is half of the rows.
    assert np.mean([a == b for a, b in zip(before, truth, strict=True)]) > 0.65
    for row in story.second["rows"]:
        assert row["p(no)"] + row["p(yes)"] == pytest.approx(1)


def test_queries_are_counted_over_the_restart(story: Story) -> None:
    assert (story.first["left"], story.second["left"]) == (1000 - ASKED, 1000 - 2 * ASKED)


def test_a_stop_is_graceful(story: Story) -> None:
    assert story.exits == [0, 0, 0]
    for name in SERVERS:
        events = [line.get("what") for line in story.town.log(name)]
        assert [e for e in events if e] == ["started", "stopping", "stopped", "started"]
        stopped = next(line for line in story.town.log(name) if line.get("what") == "stopped")
        assert stopped["finished"]


def test_runs_are_listed_and_shown(story: Story) -> None:
    listed = story.town.by("south", "runs", "list")[0]
    (row,) = listed["rows"]
    assert (row["run"], row["by"], row["errors"]) == (story.run, "north", {})
    assert row["parties"] == dict.fromkeys(SERVERS, "done")
    shown = story.town.by("south", "runs", "show", story.run)[0]
    assert (shown["ok"], shown["state"]) == (True, "done")


def test_the_model_is_listed_and_shown(story: Story) -> None:
    row = story.town.by("south", "models", "list")[0]["rows"][0]
    assert (row["model"], row["servers"]) == ("illness-1", dict.fromkeys(SERVERS, "kept"))
    shown = story.town.by("south", "models", "show", "illness-1")[0]
    assert (shown["ok"], shown["run"], shown["job"]) == (True, story.run, story.training[0]["hash"])
    assert shown["populations"] == ["patients"]
    assert shown["asking"] == [
        {"analyst": ANALYST, "asked": 2 * ASKED, "left": story.second["left"]}
    ]
    totals = {(row["audience"], row["relation"]): row["epsilon"] for row in shown["learned"]}
    assert totals["analyst", "add/remove"] == pytest.approx(1.0)
    pairs = [epsilon for (who, _), epsilon in totals.items() if who.startswith("any two of server")]
    assert pairs == ["inf"]
    assert shown["cost"]["payload"] == sum(s["payload"] for s in shown["sent"].values()) > 0
    assert shown["cost"]["rounds"] > 0
    # Hidden trees are trained without an opening; their table takes a few that say nothing.
    assert [row["name"] for row in shown["opened"]] == [
        one.name for one in openings([1, 1], "server")
    ]


def test_a_job_that_is_posted_again_is_the_same_run_and_costs_nothing(story: Story) -> None:
    again = story.town.by("north", "train", story.town.root / "job.toml")
    assert again[0]["run"] == story.run
    for name in SERVERS:
        (balance,) = balances_in(story.town.home / name)
        assert [one.epsilon for one in balance.spent.charges] == [pytest.approx(1.0)]


def test_what_is_not_allowed_is_refused_by_its_number(story: Story) -> None:
    town, root = story.town, story.town.root
    assert town.refused("north", "train", root / "greedy.toml") == "H858"
    # An analyst posts nothing that the policies do not let it, and stops nothing of others.
    assert town.refused(ANALYST, "train", root / "job.toml") == "H858"
    assert town.refused("south", "train", root / "job.toml") == "H930"
    assert town.refused(ANALYST, "runs", "stop", story.run) == "H930"
    assert town.refused(ANALYST, "runs", "resume", story.run) == "H930"
    assert town.refused(ANALYST, "query", "nothing-1", root / "rows.csv") == "H407"
    assert town.refused("north", "query", "illness-1", root / "rows.csv") == "H905"
    # One row more than is left.
    many = people(1000).select(["age", "ward", "sex"])
    path = write_csv(root / "many.csv", many)
    assert town.refused(ANALYST, "query", "illness-1", path) == "H207"
    # The id of an upload is used up, for its owner too.
    common = ("--domain", root / "domain.toml", "--population", "patients")
    whole = write_csv(root / "whole.csv", people(20))
    assert town.refused("north", "upload", whole, *common, "--id", "north-1") == "H886"
    # Ids that begin with the name of an owner are for that owner.
    assert town.refused("south", "upload", whole, *common, "--id", "north-2") == "H931"


def test_no_row_is_at_a_server(story: Story) -> None:
    needles = set()
    for owner, columns in COLUMNS.items():
        text = (story.town.root / f"{owner}.csv").read_bytes().splitlines()
        needles |= {line for line in text[1:] if len(line) > 8}
        assert any(b"1100," in line for line in text), columns
    needles |= set(_encodings(story))
    files = [p for name in SERVERS for p in (story.town.home / name).rglob("*") if p.is_file()]
    assert len(files) > 30
    for path in files:
        data = path.read_bytes()
        assert not [needle for needle in needles if needle in data], path


def _placed(story: Story, owner: str) -> tuple[TaggedTable, np.ndarray]:
    """Return an owner's slots, with other random tags of empty ones, and its planes as shared."""
    key = read_state_key(story.town.root / "align.key")
    encoded = encode_part(story.town.root / f"{owner}.csv", DOMAIN, None, "id")
    placed = place_records(encoded, SLOTS, key)
    assert isinstance(placed, TaggedTable)
    held = {k: _held(story, name, f"{owner}-1") for k, name in enumerate(SERVERS)}
    with Simulator(3) as network:
        engine = ReplicatedEngine(network, Leakage([]))
        return placed, reveal(bits_of_parts(engine, held, planes_of(placed).shape))


def _encodings(story: Story) -> Iterator[bytes]:
    """Yield the bits and the bins of all columns, as a careless server would write them."""
    for owner in OWNERS:
        placed, planes = _placed(story, owner)
        for plane in pack(planes):
            yield plane.tobytes()
        yield from (tag.tobytes() for tag in placed.tags[placed.present])
        ordered = placed.rows(np.flatnonzero(placed.present))
        labels = [] if ordered.target is None else [ordered.target]
        for column in (*ordered.bins.T, *labels):
            for dtype in (np.uint8, np.int32, np.int64):
                yield np.ascontiguousarray(column[:64]).astype(dtype).tobytes()


def test_the_shares_of_all_servers_together_are_the_rows(story: Story) -> None:
    """What was looked for above is what is there to be found."""
    for owner in OWNERS:
        placed, planes = _placed(story, owner)
        wanted = planes_of(placed)
        # Tags of records are the same, in one order; those of empty slots are drawn each time.
        np.testing.assert_array_equal(planes[:, planes[0]], wanted[:, wanted[0]])
        assert planes[0].sum() == len(HELD[owner])


def _held(story: Story, name: str, id: str) -> Dealt:
    config = story.config(name)
    return open_upload(config.state, operator_key(config.folder), id)[1]


def test_all_that_counts_is_in_the_store(story: Story) -> None:
    for name in (*SERVERS, *OWNERS):
        assert stray_files(story.config(name).folder) == []


def test_no_share_is_in_a_log(story: Story) -> None:
    for name in SERVERS:
        config = story.config(name)
        shares: list[int] = []
        seeds: list[bytes] = []
        for owner in OWNERS:
            dealt = _held(story, name, f"{owner}-1")
            seeds += dealt.seeds.values()
            shares += [] if dealt.correction is None else dealt.correction.reshape(-1).tolist()
        stored = open_model(config.state, operator_key(config.folder), "illness-1")
        words = {str(w) for w in shares if w > 1 << 32} | {f"{w:016x}" for w in shares}
        words |= {seed.hex() for seed in seeds} | {str(seed) for seed in seeds}
        words |= {str(a.reshape(-1)[:3].tolist()) for a in stored.shares.values()}
        state = config.folder / "state"
        logs = [*state.rglob("*.log"), *state.rglob("*.jsonl"), *state.glob("party.db*")]
        assert len(logs) >= 5
        for path in logs:
            text = path.read_bytes().decode(errors="replace")
            assert not [word for word in words if word in text], path
        for line in story.town.log(name):
            assert set(line) <= LOGGED, line


def test_the_job_is_the_one_that_was_written(story: Story) -> None:
    job = ServerJob.load(story.town.root / "job.toml")
    assert story.run == job.run_id
    for name in SERVERS:
        assert job_of_run(story.config(name).state, job.run_id).hash == job.hash
