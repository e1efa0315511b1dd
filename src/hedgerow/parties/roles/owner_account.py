"""An owner's account beside servers: what it allows them, and what they have charged.

An owner that shares its table has no seat in the runs of the servers. What its policy allows goes
to them as `OwnerTerms`, with the lifetime that they may charge to the population, and each of the
three refuses what is beyond. What they have charged is fetched and entered in the owner's own
account, under the key of the job, so that it is there once however often it is fetched.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError, ask_whether
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import OwnerTerms, Policy
from hedgerow.parties.roles.server_reports import ChargeClient, ChargeLine, PopulationCharges
from hedgerow.parties.store.accounts import AccountCharge, Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.wire.client import call_member

PAUSE = 60.0
"""Seconds between looks of a daemon at what servers have charged."""
_logger = logging.getLogger(__name__)


def check_listed(config: PartyConfig, population: str) -> Policy:
    """Return the policy of this owner; H858 if it says nothing of a population."""
    policy = Policy.load(config.folder)
    listed = sorted(policy.populations)
    if population not in listed:
        one_of = f"name one that is listed ({', '.join(listed)}), or " if listed else ""
        raise Code.POLICY_REFUSES.error(
            expected="what policy.toml allows: [populations]",
            found=f"population {population!r}, which is not listed"
            f"{ask_whether(population, listed)}",
            fix=f"{one_of}write what all jobs on it may cost, such as {population} = 3.0, under "
            f"[populations] in {config.folder / 'policy.toml'}: servers hold to it",
        )
    return policy


def send_terms(
    config: PartyConfig, population: str, cap: float | None = None, *, for_upload: bool = False
) -> OwnerTerms:
    """Tell all servers what this owner's policy allows on its uploads of a population.

    `cap`: largest lifetime epsilon for the servers; that given last, or none, by default. What is
    promised to them is held back here first. `for_upload`: H858 if nothing is left for them.
    """
    if cap is not None and not cap > 0:
        raise Code.BAD_PARAMETER.error(expected="--lifetime-epsilon above 0", found=f"{cap}")
    policy = Policy.load(config.folder)
    accounts = Accounts(config.state, policy)
    # What servers have charged is no spending of this owner's own.
    fetch_charges(config)
    lifetime = accounts.promise(population, cap)
    if lifetime is None and for_upload:
        raise Code.POLICY_REFUSES.error(
            expected=f"what policy.toml allows: [populations] {population}",
            found="nothing left for servers of what this owner has not spent itself",
        )
    terms = policy.terms(config.name, population, lifetime)
    text = terms.to_json().encode()
    for server in config.servers:
        reply = call_member(config, server, "terms", {"population": population}, text)
        if reply.fields.get("digest") != terms.digest:
            raise Code.BAD_REPLY.error(
                expected=f"{server.name} to have taken the terms",
                found="a reply about something else",
            )
    accounts.fulfil(population, lifetime)
    return terms


@dataclass(frozen=True)
class ServerCharges:
    """What the servers have charged to the populations of an owner, all of it entered here now.

    `refusals`: servers that told nothing, and why. `complaints`: where they do not agree, H945.
    """

    populations: list[PopulationCharges]
    refusals: dict[str, HedgerowError]
    complaints: list[HedgerowError]

    @property
    def is_well(self) -> bool:
        """Whether all servers have told the same."""
        return not self.refusals and not self.complaints


def fetch_charges(config: PartyConfig) -> ServerCharges:
    """Ask the servers what they have charged, and enter it in this owner's account.

    What one of them says is entered, with the largest figures of all who say it: a charge that is
    not there would be spent once more.
    """
    found, refusals = ChargeClient(config).charges()
    policy = Policy.load(config.folder)
    mine = {*shared_populations(config), *policy.populations}
    accounts = Accounts(config.state, policy)
    complaints = []
    for one in found:
        # Nobody else can open an account here.
        differ = accounts.enter(one.population, _union(one)) if one.population in mine else []
        if one.differs:
            complaints.append(_complaint(one, "the three servers to have charged the same"))
        elif differ:
            keys = ", ".join(charge.key for charge in differ[:3])
            complaints.append(_complaint(one, f"the figures of this owner's account for {keys}"))
    return ServerCharges(found, refusals, complaints)


def shared_populations(config: PartyConfig) -> set[str]:
    """Return the populations of which this owner has shared rows, or was about to."""
    with open_store(config.state).snapshot() as made:
        events = [jsonfile.loads(one, Code.JOURNAL_DAMAGED) for one in made.upload_events()]
        promised = {str(row["population"]) for row in made.rows("promises")}
    return promised | {str(event["population"]) for event in events}


def _union(one: PopulationCharges) -> list[AccountCharge]:
    """Return every charge once, whoever of the servers has told of it."""
    told: dict[str, list[tuple[ChargeLine, tuple[str, ...]]]] = {}
    for line, servers in one.lines:
        told.setdefault(line.key, []).append((line, servers))
    charges = []
    for key, lines in told.items():
        first = lines[0][0]
        names = sorted({name for _, servers in lines for name in servers})
        charges.append(
            AccountCharge(
                key,
                max(line.epsilon for line, _ in lines),
                max(line.delta for line, _ in lines),
                f"{first.what or first.run}, at {', '.join(names)}"[:200],
                first.time,
            )
        )
    return charges


def _complaint(one: PopulationCharges, expected: str) -> HedgerowError:
    totals = (
        f"epsilon {account.spent[0]:.6g} in {len(account.charges)} charges at {name}"
        for name, account in one.accounts.items()
    )
    return Code.CHARGES_DIFFER.error(
        expected=f"{expected} to {one.population}", found="; ".join(totals)
    )


class Bookkeeper:
    """Fetches what servers have charged, now and then, while an owner's daemon runs."""

    def __init__(self, config: PartyConfig, pause: float = PAUSE) -> None:
        self._config, self._pause = config, pause
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="bookkeeper", daemon=True)
        self._said: list[str] = []

    def start(self) -> None:
        """Begin, with a look at once."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look that is under way ends by itself."""
        self._stopping.set()

    def look(self) -> None:
        """Fetch charges; what is wrong goes to the log, once until it changes."""
        if not shared_populations(self._config):
            return
        try:
            found = fetch_charges(self._config)
            errors = [*found.complaints, *found.refusals.values()]
        except HedgerowError as failure:
            errors = [failure]
        said = [f"{error.code.number} {error.found}" for error in errors]
        if said != self._said:
            for error in errors:
                event = {"what": "charges", "outcome": error.code.number, "found": error.found}
                _logger.warning("charges", extra={"event": event})
        self._said = said

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except Exception:
                _logger.exception("failure", extra={"event": {"what": "charges"}})
            self._stopping.wait(self._pause)
