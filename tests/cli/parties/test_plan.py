"""``hedgerow plan`` in a party's folder: what is not there is said before a job is posted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.tables import Attribute, Domain, Target
from tests.parties.roles.owner_wards import Wards, one
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, serving
from tests.parties.topdown import topdown_jobs
from tests.parties.vertical.peer_towns import make_job as peer_job
from tests.parties.vertical.site_towns import VerticalTown
from tests.parties.vertical.site_towns import make_job as vertical_job
from tests.parties.wire.parties_calls import refuses

runner = CliRunner()


@pytest.fixture(scope="module")
def wards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wards]:
    made = Wards(tmp_path_factory.mktemp("wards"))
    with serving(made.parties, made.verbs):
        made.upload()
        yield made


def plan(job: Any, folder: Path, *more: str) -> str:
    path = folder / "job.toml"
    path.write_text(job.to_toml())
    result = runner.invoke(app, ["plan", str(path), *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(code: Code, job: Any, folder: Path, party: Path) -> HedgerowError:
    return refuses(code, lambda: plan(job, folder, str(party)))


def wider(**changes: Any) -> dict[str, Any]:
    return DOMAIN.model_copy(update=changes).to_dict()


@pytest.mark.parametrize("noise", ["none", "splits+leaves"])
def test_a_plan_of_peers_is_short_and_speaks_of_peers(noise: str, tmp_path: Path) -> None:
    epsilon = {"epsilon": 1.0} if noise != "none" else {}
    job = peer_job(plan={"max_depth": 2, "noise": noise} | epsilon)
    said = plan(job, tmp_path)
    assert "site" not in said
    assert "lemma" not in said
    assert "which rows are common, and sizes on the way: rows are matched in a ring" in said
    words = " ".join(said.replace("│", " ").split())
    assert "matching rows shows peers which are common" in words
    assert ("the model and its answers are exact" in words) == (noise == "none")
    # For programs it is what the ledger says.
    opens = json.loads(plan(job, tmp_path, "--format", "json"))["opens"]
    assert "sites of an intersection" in [one["name"] for one in opens]


MORE = Attribute(name="weight", kind="numeric", bounds=(0, 200), bins=4)
LACKS: dict[str, tuple[Code, dict[str, Any]]] = {
    "upload": (Code.UNKNOWN_UPLOAD, {"uploads": ["north-9"]}),
    "column": (
        Code.UPLOADS_DO_NOT_FIT,
        {"domain": wider(attributes=(*DOMAIN.attributes, MORE))},
    ),
    "target": (
        Code.UPLOADS_DO_NOT_FIT,
        {"domain": wider(target=Target(name="cured", classes=("no", "yes")))},
    ),
}


@pytest.mark.parametrize("what", LACKS)
def test_servers_say_what_is_not_there(wards: Wards, tmp_path: Path, what: str) -> None:
    code, changes = LACKS[what]
    bad = one("bad", **changes)
    assert "run bad-" in plan(bad, tmp_path)
    refused(code, bad, tmp_path, wards.north.folder)
    refuses(code, lambda: wards.post(bad))
    for name in SERVERS:
        assert wards.managers[name].store.find(bad.run_id) is None
        assert wards.spent(name) == 0


def test_a_job_that_would_be_taken_is_not_posted(wards: Wards, tmp_path: Path) -> None:
    good, north = one("good"), str(wards.north.folder)
    assert "would be taken by: alder, birch, cedar" in plan(good, tmp_path, north)
    told = json.loads(plan(good, tmp_path, north, "--format", "json"))
    assert told["would_take_it"] == list(SERVERS)
    assert json.loads(plan(good, tmp_path, "--format", "json"))["would_take_it"] is None
    assert wards.managers["alder"].store.find(good.run_id) is None


def test_an_owner_of_a_topdown_run_looks_into_its_own_table_first(tmp_path: Path) -> None:
    """Nobody serves here: what this owner lacks is said before anybody is asked."""
    town = topdown_jobs.topdown_town(tmp_path)
    north = town.parties["north"]
    columns = (*topdown_jobs.DOMAIN.attributes, MORE)
    domain = topdown_jobs.DOMAIN.model_copy(update={"attributes": columns}).to_dict()
    error = refused(
        Code.MISSING_COLUMN, topdown_jobs.make_job(domain=domain), tmp_path, north.folder
    )
    assert "'weight'" in error.found
    staff = topdown_jobs.make_job(population="staff")
    refused(Code.NO_TABLE_HERE, staff, tmp_path, north.folder)
    refuses(Code.NO_TABLE_HERE, lambda: RunClient(north).post(staff))


def test_a_site_without_a_column_does_not_take_the_job(tmp_path: Path) -> None:
    town = VerticalTown(tmp_path)
    office, job = town.parties["office"], vertical_job()
    path = town.files.table("office")
    less = path.with_name("less.csv")
    less.write_text(path.read_text().replace("temperature", "warmth"))
    domain = town.files.domain("office")
    assert "temperature" in Domain.from_toml(domain).names
    keep_own_table(office.state, OwnTable("days", less, "id", domain))
    error = refused(Code.MISSING_COLUMN, job, tmp_path, office.folder)
    # The others may read it, and what columns a site has is its own.
    assert "temperature" not in str(error)
    keep_own_table(office.state, OwnTable("days", path, "day", domain))
    refused(Code.MISSING_COLUMN, job, tmp_path, office.folder)
