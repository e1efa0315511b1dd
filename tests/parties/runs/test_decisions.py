"""What a party decides about jobs and runs is in its trail."""

from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.database import open_store
from tests.parties.runs.loopback import Loopback
from tests.parties.runs.run_servers import job
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def town(tmp_path: Path) -> Loopback:
    return Loopback(tmp_path)


def told(town: Loopback, name: str, kind: str) -> list[dict[str, Any]]:
    with open_store(town.parties[name].state).snapshot() as made:
        return [entry.fields() for entry in made.trail() if entry.kind == kind]


def test_a_refused_job_is_told_once_for_every_reason(town: Loopback) -> None:
    birch = town.managers["birch"]
    deep = job(plan={"max_depth": 19})
    birch.policy.become(birch.policy.model_copy(update={"largest_depth": 5}))
    for check in (True, False, False):
        refuses(
            Code.POLICY_REFUSES,
            lambda check=check: birch.accept(deep.to_toml(), "north", check=check),
        )
    (entry,) = told(town, "birch", "refused")
    assert (entry["run"], entry["hash"], entry["by"]) == (deep.run_id, deep.hash, "north")
    assert entry["error"] == Code.POLICY_REFUSES.number
    assert "largest_depth = 5" in entry["expected"]
    assert "19 levels" in entry["found"]
    # Another reason, also after a restart, which forgets nothing.
    birch = town.start("birch")
    narrow = Policy.load(birch.config.folder).model_copy(
        update={"allowed_protocols": ("open-tree",), "largest_depth": 5}
    )
    birch.policy.become(narrow)
    for _ in range(2):
        refuses(Code.POLICY_REFUSES, lambda: birch.accept(deep.to_toml(), "north"))
    assert ["allowed_protocols" in e["expected"] for e in told(town, "birch", "refused")] == [
        False,
        True,
    ]
    refuses(
        Code.BAD_JOB,
        lambda: birch.accept(deep.to_toml().replace("hidden-tree", "no-tree"), "north"),
    )
    assert len(told(town, "birch", "refused")) == 2


def test_a_job_without_its_rows_is_told(town: Loopback) -> None:
    birch = town.managers["birch"]
    other = job(uploads=["nobody-1"])
    refuses(Code.UNKNOWN_UPLOAD, lambda: birch.accept(other.to_toml(), "north"))
    (entry,) = told(town, "birch", "refused")
    assert entry["error"] == Code.UNKNOWN_UPLOAD.number


def test_refusals_of_one_member_do_not_fill_the_disk(town: Loopback) -> None:
    birch = town.managers["birch"]
    birch.policy.become(birch.policy.model_copy(update={"runs_per_poster": 3, "largest_depth": 1}))
    for k in range(6):
        refuses(Code.POLICY_REFUSES, lambda k=k: birch.accept(job(f"j-{k}").to_toml(), "north"))
    assert len(told(town, "birch", "refused")) == 3


def test_who_has_stopped_and_resumed_a_run(town: Loopback) -> None:
    run = town.post("ward")
    town.managers["birch"].end(run, "north")
    town.look()
    town.managers["birch"].resume(run, "north")
    orders = [(e["state"], e.get("ordered_by")) for e in told(town, "birch", "run")]
    assert orders == [("accepted", None), ("stopped", "north"), ("waiting", "north")]
    # The leader has heard of it from birch.
    orders = [(e["state"], e.get("ordered_by")) for e in told(town, "alder", "run")]
    assert orders == [("accepted", None), ("stopped", "birch")]
