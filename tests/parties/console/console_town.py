"""Three servers whose consoles tests look at: one asks a person before a job begins."""

import os
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from hedgerow.parties.console.facts import PartyFacts
from hedgerow.parties.roles.catalogue import Catalogue
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.manager import RunManager
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, people, write_csv
from tests.parties.runs.run_servers import job as server_job
from tests.parties.towns import Town, set_line, town_in

KILLING = Path(__file__).parents[1] / "killing"
BUDGET, EPSILON = 1.05, 1.0
"""Of the population and of the job: when it is done, less than a tenth is left."""


def epsilon_job(name: str = "illness") -> ServerJob:
    """Return a job with a finite epsilon."""
    plan = {"noise": "splits+leaves", "epsilon": EPSILON, "max_depth": 5}
    return server_job(name, plan=plan)


def facts_of(manager: RunManager) -> PartyFacts:
    """Return what the console of a party shows that has no models to ask."""
    config, policy = manager.config, manager.policy
    return PartyFacts(config, policy, manager, Catalogue(config, policy, None, None))


def console_url(town: Town, name: str) -> str:
    """Return the address that is in the file that ``hedgerow serve`` of a party has printed."""
    said = (town.root / f"{name}.err").read_text()
    found = re.findall(r"^console: its address is in (\S+)$", said, re.M)
    url = Path(found[-1]).read_text().strip()
    assert urlsplit(url).query not in said
    return url


@contextmanager
def console_town(root: Path) -> Iterator[Town]:
    """Found it, start it and share a table; ann or bob at birch decide about jobs."""
    with town_in(
        root,
        servers=SERVERS,
        owners=("north",),
        analysts=("zoe",),
        populations={"patients": BUDGET},
        largest_delta_per_job=1e-6,
    ) as town:
        set_line(town.parties["birch"].folder / "policy.toml", "approvers", '["ann", "bob"]')
        # Cedar can be killed at a point of a run.
        town.start(*SERVERS[:2])
        paths = [str(KILLING), *filter(None, [os.environ.get("PYTHONPATH")])]
        town.start("cedar", PYTHONPATH=os.pathsep.join(paths))
        path = write_csv(root / "people.csv", people(60))
        share_upload(town.parties["north"], path, DOMAIN, id="north-1", population="patients")
        yield town


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
