"""`PartyFacts`: what an operator may see of its party, read with the functions of the verbs.

Reveals: to the operator alone, what ``hedgerow runs``, ``models``, ``account``, ``trail`` and
``consortium check`` print in the folder of the party, and of a job what ``hedgerow plan`` prints.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import Literal

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.reach import Finding, check_consortium
from hedgerow.parties.roles.catalogue import Catalogue
from hedgerow.parties.roles.server_reports import ModelReport
from hedgerow.parties.runs.admission import decide_run, pays
from hedgerow.parties.runs.client import RunStatus, merge_status
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.reports import RunReport
from hedgerow.parties.runs.store import OPEN, PartyRun
from hedgerow.parties.store.accounts import Balance, balances_in, worst
from hedgerow.parties.store.approvals import Approval, decision
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.models import ModelManifest, list_models
from hedgerow.parties.store.trail import TrailEntry
from hedgerow.parties.wire.handlers import Caller
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.registry import askers

_AGE = 10.0
"""Seconds after which members are asked again, while somebody looks."""
_STALE = 60.0
"""Seconds after which what was found is not shown any more."""
_FIRST = 1.5
"""Seconds that the first page waits for members to answer."""
_MOST_JOBS = 64
_SHORT = 0.1
"""Share of a budget at which it is nearly used up."""
_RECENT = 24 * 3600.0
"""Seconds for which a run that has failed is something to look at."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Disclosure:
    """What a job would reveal, to whom, and what each who pays charges for it.

    `answers`: what is charged beside `costs` before the first answer, where answers cost more.
    """

    about: tuple[str, ...]
    askers: str
    payers: str
    costs: dict[str, Guarantee]
    answers: dict[str, Guarantee]
    opened: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, job: Job) -> Disclosure:
        """Read a job."""
        return cls(
            tuple(job.describe()),
            askers(job.protocol, job.analysts),
            job.payers,
            job.costs(),
            job.answer_costs(),
            tuple(job.opened()),
        )

    @property
    def charge(self) -> tuple[float, float]:
        """Epsilon and delta for the account."""
        return worst(self.costs)


@dataclass(frozen=True)
class RunFacts:
    """A run at this party; `awaited` says that, and for whom, it waits for an approval here."""

    run: PartyRun
    status: RunStatus
    members: tuple[str, ...]
    awaited: HedgerowError | None

    @property
    def share(self) -> float | None:
        """How much of its levels is done; None where nobody has said."""
        status = self.status
        if status.state != "running" or status.level < 0 or status.depth <= 0:
            return None
        return min(1.0, status.level / status.depth)


@dataclass(frozen=True)
class Need:
    """Something that its operator should look at, what to do, and the page that has more of it."""

    weight: Literal["bad", "warn"]
    label: str
    what: str
    fix: str
    page: str = ""


@dataclass(frozen=True)
class Overview:
    """All of the first page; `members` is None until they were asked for the first time.

    `unasked` says why they could not be asked; it is empty where they could.
    `needs` and `pending` are of all runs, however few of them are shown in `runs`.
    """

    needs: list[Need]
    under_way: int
    runs: list[RunFacts]
    balances: list[Balance]
    pending: dict[str, float]
    members: list[Finding] | None
    unasked: str
    models: list[ModelManifest]
    trail: list[TrailEntry]

    @property
    def open_runs(self) -> list[RunFacts]:
        """Those that are shown of what is to be done, or done by some."""
        return [one for one in self.runs if one.run.state in OPEN]

    @property
    def headline(self) -> str:
        """Say in a line whether anything needs somebody."""
        said = [f"{len(self.needs)} to look at" if self.needs else "Nothing needs you"]
        for one in self.open_runs[:3]:
            what = "waits for your approval" if one.awaited is not None else one.status.describe()
            said.append(f"{one.run.id}: {what}")
        return "; ".join(said) + "."


class MemberWatch:
    """Asks the members how they are, in a thread of its own, and no more often than need be."""

    def __init__(self, config: PartyConfig) -> None:
        self._config = config
        self._found: list[Finding] | None = None
        self.failure = ""
        self._asked = -math.inf
        self._lock = threading.Lock()
        self._heard = threading.Event()

    def look(self) -> list[Finding] | None:
        """Return what was found last; None if nobody has answered in a moment."""
        with self._lock:
            age = time.monotonic() - self._asked
            due = age > _AGE
            if due:
                self._asked = math.inf
            if age > _STALE:
                # Nobody has looked for a while: what was so then is not shown as if it were so now.
                self._heard.clear()
                self._found, self.failure = None, ""
        if due:
            threading.Thread(target=self._ask, name="members", daemon=True).start()
        self._heard.wait(_FIRST)
        return self._found

    def _ask(self) -> None:
        try:
            self._found, self.failure = check_consortium(self._config), ""
        except HedgerowError as error:
            self._found, self.failure = None, str(error)
        except Exception as error:
            _logger.exception("failure", extra={"event": {"what": "members"}})
            self._found, self.failure = None, type(error).__name__
        finally:
            self._asked = time.monotonic()
            self._heard.set()


class PartyFacts:
    """What pages show; for all threads."""

    def __init__(
        self, config: PartyConfig, policy: Policy, runs: RunManager, catalogue: Catalogue
    ) -> None:
        self.config, self.policy = config, policy
        self._runs, self._catalogue = runs, catalogue
        self._members = MemberWatch(config)
        self._disclosures: dict[str, Disclosure] = {}

    def overview(self, *, runs: int = 20, entries: int = 6) -> Overview:
        """Return what the first page shows."""
        every = self._runs.store.all()[::-1]
        awaited = [run for run in every if self._awaited(run) is not None]
        first = sorted(every, key=lambda run: run.state not in OPEN)[:runs]
        balances, members = self.balances(), self._members.look()
        unasked = self._members.failure
        needs = self._needs(every, awaited, balances, members or [])
        if unasked:
            fix = "run hedgerow doctor in the folder of this party; the log has more of it"
            what = f"members could not be asked how they are: {unasked}"
            needs.insert(0, Need("bad", "member", what, fix))
        return Overview(
            needs=needs,
            under_way=sum(run.state in OPEN for run in every),
            runs=[self.run(run.id) for run in first],
            balances=balances,
            pending=self._pending(awaited, balances),
            members=members,
            unasked=unasked,
            models=list(list_models(self.config.state)),
            trail=self.trail(entries),
        )

    @property
    def has_accounts(self) -> bool:
        """Whether jobs are charged here."""
        return pays(self.config)

    def run(self, run_id: str) -> RunFacts:
        """Return a run; H890 if it is not here."""
        run = self._runs.store.get(run_id)
        told = RunReport.model_validate(self._runs.show(run.id))
        return RunFacts(
            run,
            merge_status(run.id, {self.config.name: told}),
            told.members,
            self._awaited(run),
        )

    def disclosure(self, job: Job) -> Disclosure:
        """Return what a job would reveal; it is computed once."""
        found = self._disclosures.get(job.hash)
        if found is None:
            while len(self._disclosures) >= _MOST_JOBS:
                self._disclosures.pop(next(iter(self._disclosures)), None)
            found = self._disclosures[job.hash] = Disclosure.of(job)
        return found

    def approval(self, run: PartyRun) -> Approval | None:
        """Return what was decided about a run."""
        return decision(open_store(self.config.state), self.config.identity, run.id, run.job.hash)

    def decide(self, run_id: str, hash: str, person: str, *, approved: bool) -> None:
        """Write down a decision on the job with this hash.

        H893 for a run that waits for none here, H858 for a person whom the policy does not list.
        """
        one = self.run(run_id)
        if one.awaited is None or one.run.job.hash != hash:
            raise Code.WRONG_RUN_STATE.error(
                expected="a run that waits for approval here, as its page shows it",
                found=f"{one.run.id}, which is {one.run.state}",
                fix="load the page of the run again",
            )
        decide_run(self.config, self.policy, one.run.id, person, approved=approved)

    def balances(self) -> list[Balance]:
        """Return the accounts; none of a party that has none."""
        return balances_in(self.config.folder) if self.has_accounts else []

    def model(self, name: str) -> ModelReport:
        """Return all that is known of a model here; H407 if there is none."""
        me = self.config.me
        return self._catalogue.report(Caller(me.name, me.role), name)

    def trail(self, last: int) -> list[TrailEntry]:
        """Return the latest entries of the trail, the latest first."""
        with open_store(self.config.state).snapshot() as made:
            return made.trail_end(last)[::-1]

    def decides_until(self, run: PartyRun) -> float:
        """Return when a run that nobody has decided about is refused."""
        return run.changed + self.policy.approval_seconds

    def _awaited(self, run: PartyRun) -> HedgerowError | None:
        """Return what a run says that waits for an approval here."""
        found = self._runs.objection(run)
        return found if found is not None and found.code is Code.APPROVAL_AWAITED else None

    def _pending(self, awaited: list[PartyRun], balances: list[Balance]) -> dict[str, float]:
        """Return by population what jobs that wait for an approval here would charge."""
        charged = {charge.key for one in balances for charge in one.spent.charges}
        found: dict[str, float] = {}
        for run in awaited:
            if run.job.account_key not in charged:
                epsilon, _ = worst(run.job.costs())
                found[run.job.population] = found.get(run.job.population, 0.0) + epsilon
        return found

    def _needs(
        self,
        runs: list[PartyRun],
        awaited: list[PartyRun],
        balances: list[Balance],
        members: list[Finding],
    ) -> list[Need]:
        people, waiting = " or ".join(self.policy.approvers), {run.id for run in awaited}
        found = []
        for run in runs:
            page = f"runs/{run.id}"
            if run.id in waiting:
                what = f"{run.id}, posted by {run.by}, waits for approval by {people}"
                found.append(
                    Need("warn", "decide", what, "see what it would reveal, to whom", page)
                )
            elif run.state == "failed" and time.time() - run.changed < _RECENT:
                error = run.error
                reason, fix = ("", "") if error is None else (error.found, error.fix)
                found.append(Need("bad", "run", f"{run.id} has failed: {reason}", fix, page))
        for finding in members:
            name = finding.member.name
            problems, warnings = finding.problems, finding.warnings
            found += [Need("bad", "member", f"{name}: {p.found}", p.fix) for p in problems]
            found += [Need("warn", "certificate", w.found, w.fix) for w in warnings]
        found += [need for balance in balances for need in _shortages(balance)]
        return sorted(found, key=lambda need: need.weight != "bad")


def _shortages(balance: Balance) -> list[Need]:
    """Say of what nearly all was spent; an account without a limit is never short."""
    limit, left = balance.limit, balance.left
    if limit is None or left is None or not math.isfinite(limit.epsilon):
        return []
    delta_left = balance.delta_left
    short = left <= _SHORT * limit.epsilon
    short |= delta_left is not None and limit.delta > 0 and delta_left <= _SHORT * limit.delta
    if not short:
        return []
    what = f"the budget of {balance.population} is nearly used up: {balance.describe()[0]}"
    return [
        Need("warn", "budget", what, "jobs that cost more than what is left are refused (H858)")
    ]
