"""Job files of a tree among peers: strict, and honest about what it costs."""

import math
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.admission import admit
from hedgerow.parties.runs.agreement import compare_numbers
from hedgerow.parties.runs.jobs import load_job, read_job
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.protocols.vertical_id3.leakage import PUBLISHED
from hedgerow.tables import Target
from tests.parties.vertical.peer_towns import PEERS, PeerTown, job_dict, make_job
from tests.parties.vertical.site_towns import make_job as site_job
from tests.parties.wire.parties_calls import refuses
from tests.protocols.vertical_id3.ppid3_runs import WEATHER

HELD: dict[str, list[str]] = job_dict()["columns"]


def test_the_plan_follows_from_columns_of_peers() -> None:
    job = make_job(plan={"max_depth": 3, "hide": "features"})
    plan = job.make_plan()
    assert (plan.n_peers, plan.owners, plan.target_at) == (3, (0, 2, 1, 1), 0)
    assert (plan.depth, plan.hide, plan.align, plan.capacity) == (3, "features", "ring", 20)
    moved = make_job(columns=HELD | {"heron": ["outlook"], "wren": ["temperature", "play"]})
    assert moved.make_plan().target_at == 2
    assert job.model_name == "tennis"
    assert make_job(model="rain").model_name == "rain"


def test_text_and_hash(tmp_path: Path) -> None:
    job = make_job()
    path = tmp_path / "job.toml"
    path.write_text(job.to_toml())
    assert load_job(path) == job
    assert read_job(job.to_toml()) == job
    changes: list[dict[str, Any]] = [
        {},
        {"peers": list(PEERS[::-1])},
        {"least_records": 3},
        {"plan": {"max_depth": 3}},
    ]
    assert len({make_job(**change).hash for change in changes}) == len(changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"peers": ["heron"]}, "peers"),
        ({"peers": [f"p{i}" for i in range(11)]}, "peers"),
        ({"peers": ["heron", "heron", "wren"]}, "twice"),
        ({"columns": HELD | {"owl": ["wind"]}}, "none of the peers"),
        ({"columns": HELD | {"rook": ["humidity"]}}, "column 'wind' at no peer"),
        ({"columns": HELD | {"wren": ["temperature", "wind"]}}, "column 'wind' at two peers"),
        ({"columns": HELD | {"heron": ["outlook"]}}, "the target 'play' at no peer"),
        ({"columns": HELD | {"wren": ["temperature", "play"]}}, "the target 'play' at two peers"),
        ({"columns": HELD | {"wren": ["temperature", "rain"]}}, "'rain', which the domain"),
        ({"peers": [*PEERS, "owl"]}, "no columns of owl"),
        ({"align": "given"}, "align"),
        ({"align": "hidden", "least_records": 2}, "nobody learns how many"),
        ({"least_records": 2, "plan": {"noise": "splits+leaves", "epsilon": 1.0}}, "would tell"),
        ({"least_records": 0}, "least_records"),
        ({"analysts": ["zoe"]}, "asked by the peers alone"),
        ({"plan": {"max_depth": 0}}, "max_depth"),
        ({"plan": {"hide": "everything"}}, "hide"),
        ({"plan": {"linear": "paillier", "insecure_dealer": True}}, "no dealer among peers"),
        ({"plan": {"epsilon": 1.0}}, "epsilon"),
        ({"domain": WEATHER.select(WEATHER.names, target=False).to_dict()}, "without a target"),
        ({"sites": ["club"]}, "sites"),
    ],
)
def test_what_is_no_job_is_refused(changes: dict[str, Any], words: str) -> None:
    found = refuses(Code.BAD_JOB, lambda: PivotJob.read(job_dict(**changes), "it")).found
    assert words in found


def test_it_has_no_finite_epsilon() -> None:
    costs = make_job().costs()
    assert {name for name in costs if name.startswith("peer")} == {"peer", "peer 0"}
    assert all(math.isinf(cost.epsilon) for name, cost in costs.items() if "peer" in name)
    opened = dict(make_job().opened())
    assert opened["which own ids all have"] == opened["leaves of level 0"] == "peer"
    assert opened["sub-intersections of sets in 1 x 1 x 1 groups"] == "peer 0"


def test_whoever_is_shown_an_exact_tree_is_charged_for_as_with_sites() -> None:
    for job in (make_job(), make_job(plan={"hide": "peers"}), site_job()):
        assert math.isinf(job.costs()["public"].epsilon)
    charged = [one.reason for one in make_job().make_plan().releases() if one.audience == "public"]
    assert charged == [PUBLISHED]


@pytest.mark.parametrize(("align", "finite"), [("hidden", True), ("ring", False)])
def test_noise_has_a_finite_epsilon_where_no_ring_shows_who_is_common(
    align: str, finite: bool
) -> None:
    plan = {"noise": "splits+leaves", "epsilon": 1.5, "max_depth": 3}
    job = make_job(plan=plan, align=align)
    assert job.size().epsilon == 1.5
    # Whoever is shown the tree learns no more than epsilon says.
    assert job.costs()["public"].epsilon == pytest.approx(1.5)
    assert all(math.isfinite(one.epsilon) for one in job.costs().values()) == finite
    forest = plan | {"n_estimators": 3, "bootstrap": False}
    job = make_job(protocol="pivot-forest", plan=forest, align=align)
    assert job.costs()["public"].epsilon == pytest.approx(1.5)


def test_what_a_peer_lacks_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    town = PeerTown(tmp_path)
    config = town.parties["rook"]
    accounts = Accounts(config.state, Policy.load(config.folder))

    def refused(code: Code, **changes: Any) -> HedgerowError:
        job, policy = make_job(**changes), Policy.load(config.folder)
        return refuses(code, lambda: admit(job, "wren", config, policy, accounts))

    def refusal(code: Code, **changes: Any) -> str:
        return refused(code, **changes).found

    admit(make_job(), "wren", config, Policy.load(config.folder), accounts)
    # Rings are too small for the counts of so many rows, for their scores, and for sums of numbers.
    play = Target(name="play", bounds=(0.0, 1.0))
    for capacity, target, ring, bound in (
        (1 << 31, WEATHER.target, "Z_2^32", "2,147,483,646"),
        (1 << 30, WEATHER.target, "Z_2^64", "2**61"),
        (1 << 26, play, "Z_2^32", "67,108,863"),
    ):
        room = WEATHER.model_copy(update={"capacity": capacity, "target": target}).to_dict()
        said = refused(Code.BAD_PARAMETER, domain=room)
        assert ring in said.expected
        assert bound in said.expected
        assert f"{capacity:,}" in said.found
    no_room = WEATHER.model_copy(update={"capacity": None}).to_dict()
    refusal(Code.MISSING_CAPACITY, domain=no_room)
    swapped = HELD | {"heron": ["humidity", "wind", "play"], "rook": ["outlook"]}
    assert "some of them" in refusal(Code.MISSING_COLUMN, columns=swapped)
    path = tmp_path / "observatory.csv"
    keep_own_table(config.state, OwnTable("days", path))
    assert "without" in refusal(Code.NO_TABLE_HERE)
    assert not accounts.spent("days").charges
    town.stop()


def test_peers_of_another_version_do_not_begin() -> None:
    def attend(network: Network) -> None:
        compare_numbers(network, "version of Pivot", 1 + network.local[0] // 2, Code.WRONG_VERSION)

    with pytest.raises(HedgerowError, match="version of Pivot") as caught:
        Mesh(3).run({(i,): attend for i in range(3)})
    assert caught.value.code is Code.WRONG_VERSION
