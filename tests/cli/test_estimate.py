"""``hedgerow estimate``: a job of every kind, and what it needs to be told."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.protocols.estimate.traffic import servers_traffic
from tests.parties.roles.owner_wards import one
from tests.parties.topdown import topdown_jobs
from tests.parties.vertical import peer_towns
from tests.parties.vertical.site_towns import make_job as vertical_job
from tests.parties.wire.parties_calls import refuses

runner = CliRunner()
SITES = ("--rows", "60", "--values", "2;3;2,2")


def estimate(job: Any, folder: Path, *more: str) -> str:
    path = folder / "job.toml"
    path.write_text(job.to_toml())
    result = runner.invoke(app, ["estimate", str(path), *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def estimated(job: Any, folder: Path, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(estimate(job, folder, "--format", "json", *more))
    assert found["ok"]
    return found


@pytest.mark.parametrize(
    ("job", "more", "parties"),
    [
        (one(), (), ["server 0", "server 1", "server 2"]),
        (peer_towns.make_job(), (), list(peer_towns.PEERS)),
        (topdown_jobs.make_job(), (), ["coordinator", "north", "south"]),
        (vertical_job(), SITES, ["club", "observatory", "office"]),
    ],
    ids=["servers", "peers", "owners", "sites"],
)
def test_a_job_of_every_kind(
    job: Any, more: tuple[str, ...], parties: list[str], tmp_path: Path
) -> None:
    found = estimated(job, tmp_path, *more)
    names = [one["party"] for one in found["parties"]]
    assert names[: len(parties)] == parties
    assert all(one["online_bytes"] > 0 for one in found["parties"])
    seconds = found["computing_seconds"] + found["network_seconds"]
    assert found["seconds"] == pytest.approx(seconds)
    assert found["latencies"] >= found["online_rounds"]


def test_rows_and_the_network_are_asked_for(tmp_path: Path) -> None:
    near, far = (estimated(one(), tmp_path, "--latency", ms) for ms in ("0", "100"))
    waited = far["network_seconds"] - near["network_seconds"]
    assert waited == pytest.approx(far["latencies"] * 0.05)
    many = estimated(one(), tmp_path, "--rows", "100000", "--latency", "0", "--bandwidth", "8")
    sent = [[party["online_bytes"] for party in told["parties"]] for told in (near, many)]
    assert min(sent[1]) > 100 * max(sent[0])
    assert many["network_seconds"] == pytest.approx(max(sent[1]) / 1e6)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("--latency", text) for text in ("nan", "inf", "1e300")),
        *(("--bandwidth", text) for text in ("nan", "inf", "1e300")),
        *((flag, "9" * 400) for flag in ("--cores", "--rows")),
    ],
)
def test_numbers_beyond_everything_are_refused(flag: str, value: str, tmp_path: Path) -> None:
    refuses(Code.BAD_PARAMETER, lambda: estimate(one(), tmp_path, flag, value))


def test_text_says_which_part_is_which(tmp_path: Path) -> None:
    text = estimate(peer_towns.make_job(), tmp_path)
    assert "before rows are needed" in text
    assert "sends before" in text
    assert "one that stops growing early sends less" in " ".join(text.split())
    assert all(name in text for name in peer_towns.PEERS)


def test_where_nothing_can_be_done_before_nothing_is_said_of_it(tmp_path: Path) -> None:
    text = estimate(one(), tmp_path)
    assert "before" not in text
    assert "0.000 MB" not in text


def test_rounds_of_the_daemons_themselves_are_counted(tmp_path: Path) -> None:
    """Beside the program: two at the beginning, one for each stage, the ledger, the end."""
    job = one()
    alone = servers_traffic(job.make_plan(), job.protocol, len(job.uploads)).reading
    found = estimated(job, tmp_path)
    assert found["online_rounds"] == alone.rounds + 2 + job.levels + 1 + 1 + 2
    assert found["latencies"] == found["online_rounds"]


def test_sites_are_told_that_it_depends_on_the_rows(tmp_path: Path) -> None:
    text = " ".join(estimate(vertical_job(), tmp_path, *SITES).split())
    assert re.search(r"from [\d.]+ to [\d.]+ MB in all", text)
    assert "other rows may send more or less" in text


@pytest.mark.parametrize(
    "more",
    [(), ("--rows", "60"), (*SITES[:3], "2;3"), (*SITES[:3], "2;x;2"), (*SITES[:3], "0;3;2")],
)
def test_sites_know_their_own_columns_alone(more: tuple[str, ...], tmp_path: Path) -> None:
    error = refuses(Code.BAD_PARAMETER, lambda: estimate(vertical_job(), tmp_path, *more))
    assert "values" in error.expected
