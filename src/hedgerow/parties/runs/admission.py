"""Whether a server takes a job: all that can be known before anything is computed."""

from __future__ import annotations

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.jobs import Job
from hedgerow.parties.store.accounts import Accounts, worst
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.manifests import UploadManifest
from hedgerow.parties.store.uploads import is_here, read_manifest


def admit(
    job: Job, by: str, config: PartyConfig, policy: Policy, accounts: Accounts
) -> list[UploadManifest]:
    """Refuse a job that this server does not allow or cannot carry out; nothing is recorded.

    A job that was charged before passes without a second charge. Returns the manifests of its
    uploads, in order. H850 for an analyst who is none, H858 by the policy or the account, H910 for
    uploads that do not fit, H888 for one that is not here, and whatever `Job.make_plan` refuses.
    """
    for analyst in job.analysts:
        config.member(analyst, "analyst")
    # What costs nothing to find out comes first: a job may be of somebody hostile.
    policy.check_protocol(job.kind)
    policy.check_analysts(job.analysts)
    policy.check_account(job.population, spent=0.0, epsilon=0.0)
    policy.check_poster(by, owners_of(job, config.state))
    policy.check_size(**job.plan.size(job.domain.target)._asdict())
    costs = job.costs()
    policy.check_job(
        protocol=job.kind,
        epsilon={audience: cost.epsilon for audience, cost in costs.items()},
        delta={audience: cost.delta for audience, cost in costs.items()},
        analysts=job.analysts,
        populations=[job.population],
    )
    manifests = [read_manifest(config.state, upload) for upload in job.uploads]
    job.uploads_for(manifests)
    accounts.check(job.population, job.account_key, *worst(costs))
    return manifests


def owners_of(job: Job, state: StateFolder) -> set[str]:
    """Return the owners of those uploads of a job that are here."""
    here = [upload for upload in job.uploads if is_here(state, upload)]
    return {read_manifest(state, upload).owner for upload in here}


def charge(job: Job, accounts: Accounts) -> bool:
    """Charge a job to its population, once, before anything is computed; whether that is new.

    A refusal (H858) means that other jobs were faster.
    """
    epsilon, delta = worst(job.costs())
    return accounts.charge(
        job.population, job.account_key, epsilon, delta, what=f"run {job.run_id}"
    )
