"""Three servers whose consoles tests look at: one asks a person before a job begins."""

import os
import re
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from hedgerow.parties.console.facts import PartyFacts
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.catalogue import Catalogue
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.store.uploads import open_upload
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, people, write_csv
from tests.parties.runs.run_servers import job as server_job
from tests.parties.towns import Town, set_line, town_in

KILLING = Path(__file__).parents[1] / "killing"
BUDGET, EPSILON = 1.05, 1.0
"""Of the population and of the job: when it is done, less than a tenth is left."""


UNNAMED = "insurance_number"


def secrets_of(town: Town) -> dict[str, str]:
    """Return what is on no page of any party, by whose it is, as a page might write it.

    Tokens of consoles, keys of certificates and of what is kept, shares, columns of owners.
    """
    found = {"column of north": UNNAMED}
    for name, config in town.parties.items():
        for path in sorted((config.folder / "keys").glob("*.key")):
            lines = path.read_text().splitlines()
            (found[f"{path.name} of {name}"],) = (one for one in lines if "-----" not in one)
        if name not in SERVERS:
            continue
        found[f"token of {name}"] = urlsplit(console_url(town, name)).query.removeprefix("token=")
        _, dealt = open_upload(config.state, operator_key(config.folder), "north-1")
        shares = {f"seed {number}": seed for number, seed in dealt.seeds.items()}
        if dealt.correction is not None:
            shares["correction"] = dealt.correction.tobytes()[:32]
        for share, data in shares.items():
            found |= {
                f"{share} of {name}, in hexadecimal": data.hex(),
                f"{share} of {name}, in base 64": b64encode(data).decode().rstrip("="),
            }
    return found


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
        # Of the columns of an owner the domain names some.
        table = people(60)
        table = table.append_column(UNNAMED, table["id"])
        path = write_csv(root / "people.csv", table)
        share_upload(town.parties["north"], path, DOMAIN, id="north-1", population="patients")
        yield town


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
