"""Whether a party takes a job: all that can be known before anything is computed."""

from __future__ import annotations

from typing import Any

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import JobRules, Policy
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.parts import Part, part_of
from hedgerow.parties.runs.store import job_of_run
from hedgerow.parties.store.accounts import Accounts, worst
from hedgerow.parties.store.approvals import decide
from hedgerow.parties.store.database import open_store


def admit(job: Job, by: str, config: PartyConfig, policy: Policy, accounts: Accounts) -> Part[Any]:
    """Refuse a job that this party does not allow or cannot carry out; nothing is recorded.

    A job that was charged before passes without a second charge. Returns what this party does in
    it. H850, H905 to H907 for members that are not there, H858 by the policy, by the account or by
    what owners of the rows allow, what `Part.check` and `Job.make_plan` refuse.
    """
    # What costs nothing to find out comes first: a job may be of somebody hostile.
    seats = job.seats(config)
    if config.me not in seats:
        names = ", ".join(seat.name for seat in seats)
        raise Code.NOT_IN_JOB.error(expected=f"one who takes part: {names}", found=config.name)
    part, has_account = part_of(config, job), pays(config)
    owners = part.upload_owners()
    for rules in (policy, *accounts.terms(job.population, owners)):
        rules.check_poster(by, part.governors())
        cost = check_policy(job, rules, has_account=has_account)
    part.check()
    if has_account:
        shared = _servers_pay(job, config)
        accounts.check(job.population, job.account_key, *cost, owners=owners, shared=shared)
    return part


def check_policy(job: Job, policy: JobRules, *, has_account: bool = True) -> tuple[float, float]:
    """Refuse what the policy does not allow, H858; return epsilon and delta to be charged."""
    policy.check_protocol(job.protocol)
    policy.check_analysts(job.analysts)
    if has_account:
        policy.check_account(job.population, spent=0.0, epsilon=0.0)
    policy.check_size(**job.size()._asdict())
    costs = job.costs()
    policy.check_job(
        protocol=job.protocol,
        epsilon={audience: cost.epsilon for audience, cost in costs.items()},
        delta={audience: cost.delta for audience, cost in costs.items()},
        analysts=job.analysts,
        populations=[job.population] if has_account else [],
    )
    return worst(costs)


def decide_run(
    config: PartyConfig, policy: Policy, run: str, person: str, *, approved: bool
) -> None:
    """Write down what a person has decided about the job of a run, signed by this party.

    H858 for a person whom the policy does not list, H890 if there is no such run.
    """
    policy.check_approver(person)
    job = job_of_run(config.state, run)
    store = open_store(config.state)
    decide(store, config.identity, job.run_id, job.hash, person, approved=approved)


def pays(config: PartyConfig) -> bool:
    """Whether this party has accounts: all but a coordinator, who sees what is public anyway."""
    return config.role != "coordinator"


def _servers_pay(job: Job, config: PartyConfig) -> bool:
    """Whether servers charge the same job to the rows of this owner."""
    return config.role == "owner" and any(seat.role == "server" for seat in job.seats(config))


def charge(job: Job, config: PartyConfig, accounts: Accounts) -> bool:
    """Charge a job to its population, once, before anything is computed; whether that is new.

    A refusal (H858) means that other jobs were faster.
    """
    if not pays(config):
        return False
    epsilon, delta = worst(job.costs())
    return accounts.charge(
        job.population,
        job.account_key,
        epsilon,
        delta,
        what=f"run {job.run_id}",
        owners=part_of(config, job).upload_owners(),
        shared=_servers_pay(job, config),
    )
