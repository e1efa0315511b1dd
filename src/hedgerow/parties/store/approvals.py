"""Approvals: what a person whom the policy of a party names has decided about a job.

The operator of the party writes the decision down for that person, signed with the party's key over
the hash of the job, the person and the decision. The last decision on a job counts; all are told
in the trail.
"""

from __future__ import annotations

import json
import time
from typing import NamedTuple

from hedgerow.net.certificates import Identity, is_signed, sign
from hedgerow.parties.store.database import Store

KIND = "approval"
_DECIDED = b"hedgerow/job approval/v1\x00"


class Approval(NamedTuple):
    """A decision on the job of a run."""

    person: str
    approved: bool
    signature: bytes


def decide(
    store: Store, identity: Identity, run: str, hash: str, person: str, *, approved: bool
) -> None:
    """Write and tell what a person has decided about a job, in the place of what was before."""
    signature = sign(identity, _message(hash, person, approved))
    with store.transaction("decide about a job") as made:
        made.put(
            "approvals",
            {
                "run": run,
                "person": person,
                "approved": int(approved),
                "time": time.time(),
                "signature": signature,
            },
        )
        told = {"run": run, "hash": hash, "person": person, "approved": approved}
        made.tell(KIND, {**told, "signature": signature.hex()})


def decision(store: Store, identity: Identity, run: str, hash: str) -> Approval | None:
    """Return what was decided about a job; one that this party has not signed counts for nothing.

    Cost: one read of the store.
    """
    with store.snapshot() as made:
        row = made.row("approvals", run=run)
    if row is None:
        return None
    found = Approval(row["person"], bool(row["approved"]), row["signature"])
    message = _message(hash, found.person, found.approved)
    return found if is_signed(identity.pem, message, found.signature) else None


def _message(hash: str, person: str, approved: bool) -> bytes:
    return _DECIDED + json.dumps([hash, person, approved]).encode()
