"""`hedgerow report` in the folders of all who know of a run: of each role, what it may show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.privacy import Ledger
from hedgerow.protocols.registry import IN_PIECES
from tests.parties.vertical.site_towns import COLUMNS
from tests.protocols.vertical_id3.ppid3_runs import WEATHER
from tests.reports.pages import check_figures, text_of

if TYPE_CHECKING:
    from tests.everywhere.runtimes import Everybody

SECONDS = r'<td class="number">[0-9,.]+ s</td>'


def check_reports(town: Everybody, job: Any) -> list[Path]:
    """Read one page of each role, by the name of the model or the run; return them."""
    members = town.members(job)
    first = {town.parties[name].role: name for name in reversed(members)}
    told = ["zoe", "north"] if isinstance(job, ServerJob) else []
    if not told:
        check_stranger(town, job)
    pages = []
    for role, name in first.items():
        page = report(town, name, job.model_name if role != "owner" else job.run_id)
        text = page.read_text()
        check_figures(text, ledger_of(town, name, job))
        check_secrets(town, name, job, page)
        assert f"made by {name}, " in text_of(text)
        check_seconds(job, text)
        pages.append(page)
    for name in told:
        page = report(town, name, job.run_id[:-4])
        check_figures(page.read_text(), ledger_of(town, members[0], job))
        assert page.read_text().count('<tr><th scope="row">alder</th>') == 2
        assert re.search(rf'<th scope="row">alder</th>{SECONDS}', page.read_text())
        pages.append(page)
    return pages


def check_seconds(job: Any, text: str) -> None:
    """A party has noted the seconds of all steps, and of all stages where there are any."""
    cost = text[text.index('<h2 id="cost">') : text.index('<h2 id="card">')]
    rows = len(re.findall(r'<tr><th scope="row">', cost))
    assert len(re.findall(rf'<tr><th scope="row">[^<]*</th>{SECONDS}{SECONDS}', cost)) == rows
    assert ">all steps</th>" in cost
    assert (">all stages</th>" in cost) == isinstance(job, ServerJob | PivotJob)


def check_stranger(town: Everybody, job: Any) -> None:
    """Of what is published an analyst has a page; of what lies in pieces it learns that it is."""
    page = report(town, "zoe", job.run_id).read_text()
    if job.protocol in IN_PIECES:
        assert "tell this party nothing of it" in page
        assert "those who took part have the ledger" in page
        assert "<svg" not in page
        assert "outlook" not in page
    else:
        check_figures(page, ledger_of(town, town.members(job)[0], job))


def report(town: Everybody, name: str, what: str) -> Path:
    page = town.root / f"{name}-{what}.html"
    folder = town.parties[name].folder
    done = CliRunner().invoke(app, ["report", what, str(folder), "--out", str(page), "--force"])
    assert done.exit_code == 0, (done.output, done.exception)
    return page


def ledger_of(town: Everybody, name: str, job: Any) -> Ledger:
    """Return the ledger of a party: of a tree in pieces, with what was asked since."""
    stored = town.stored(name, job)
    if job.protocol not in IN_PIECES:
        return stored.read_ledger()
    ledger = DurableLedger(open_store(town.parties[name].state), job.run_id)
    ledger.parties = stored.read_ledger().parties
    return ledger


def check_secrets(town: Everybody, name: str, job: Any, page: Path) -> None:
    """What is shared is not even read for a page; of other sites' columns there is nothing."""
    text = page.read_text()
    if isinstance(job, VerticalJob):
        own = COLUMNS.get(name, [])
        others = [WEATHER.names[i] for i in range(len(WEATHER.names)) if i not in own]
        seen = text_of(text)
        assert not [column for column in others if column in seen]
        assert [column for column in WEATHER.names if column in seen] == [
            WEATHER.names[i] for i in sorted(own)
        ]
        return
    shares = town.parties[name].state.path("models", job.model_name, "shares.bin")
    if shares.exists():
        away = town.root / "shares.bin"
        shutil.move(shares, away)
        try:
            assert report(town, name, job.model_name).read_text() == text
        finally:
            shutil.move(away, shares)
