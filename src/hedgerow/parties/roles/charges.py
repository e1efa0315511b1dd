"""The request ``charges``: what a server has charged to populations, for owners of their rows."""

from __future__ import annotations

import json

from hedgerow.errors import Code
from hedgerow.parties.roles.charge_client import ChargeLine, ServerAccount
from hedgerow.parties.runs.store import Run, RunStore
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.uploads import list_uploads
from hedgerow.parties.wire.handlers import Caller, Verb
from hedgerow.parties.wire.link import Incoming
from hedgerow.parties.wire.requests import Fields, Payload


def charge_verbs(accounts: Accounts, store: RunStore) -> dict[str, Verb]:
    """Return what a server answers about its accounts.

    ``charges`` lists every charge to every population of which the caller has an upload here; to
    another server, all of them. The reply's payload is an object: by population, a
    `ServerAccount`.

    `store`: knows which run was charged, and who has posted it.
    """

    def charges(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del fields, payload
        if caller.role == "server":
            names = {*accounts.populations(), *accounts.policy.populations}
        else:
            uploads = list_uploads(accounts.state)
            names = {one.population for one in uploads if one.owner == caller.name}
            if not names:
                raise Code.CALLER_NOT_ALLOWED.error(
                    expected="an owner with an upload here, for the accounts of its populations",
                    found=f"{caller.name}, which has none",
                )
        runs = {f"job:{run.job.hash}": run for run in store.all()}
        told = {name: _account(name, accounts, runs).to_dict() for name in sorted(names)}
        return {}, json.dumps(told).encode()

    return {"charges": Verb(("owner", "server"), charges, idempotent=True)}


def _account(population: str, accounts: Accounts, runs: dict[str, Run]) -> ServerAccount:
    lifetime = accounts.policy.populations.get(population)
    lines = []
    for charge in accounts.spent(population).charges:
        run = runs.get(charge.key)
        lines.append(
            ChargeLine(
                **vars(charge),
                run="" if run is None else run.id,
                model="" if run is None else run.job.model,
                by="" if run is None else run.by,
            )
        )
    return ServerAccount(
        epsilon=None if lifetime is None else lifetime.epsilon,
        delta=None if lifetime is None else lifetime.delta,
        charges=tuple(lines),
    )
