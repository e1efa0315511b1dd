"""What a server tells members: the requests ``models``, ``model-show`` and ``charges``."""

from __future__ import annotations

import json

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import HOLDERS, PartyConfig
from hedgerow.parties.consortium.names import RequestedName
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.roles.server_reports import (
    Asking,
    ChargeLine,
    LedgerLine,
    ModelReport,
    Opened,
    Sent,
    ServerAccount,
)
from hedgerow.parties.runs.store import PartyRun, RunStore
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.meters import read_meter
from hedgerow.parties.store.models import (
    ModelManifest,
    StoredModel,
    list_models,
    open_model,
    read_manifest,
)
from hedgerow.parties.store.uploads import list_uploads, withdrawn_uploads
from hedgerow.parties.vertical.peer_part import opened_document
from hedgerow.parties.wire.handlers import Caller, RequestFields, verb
from hedgerow.parties.wire.requests import Fields, Payload
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.pivot.programs import OFFLINE
from hedgerow.protocols.registry import IN_PIECES, PEER_PROTOCOLS, is_published

_ROLES = ("analyst", "owner", "server", "coordinator", *HOLDERS)
_READS = "nothing changes."


class ModelsFields(RequestFields):
    """`model`: tell about this one, and list none."""

    model: RequestedName | None = None


class ModelFields(RequestFields):
    """A model, by its name."""

    model: RequestedName


class Catalogue:
    """Tell members about the models of a server.

    An analyst hears of what is published, and of models whose job and this server's policy name it;
    all others hear of all. Of a tree in pieces others hear that it is there, and whose job it was;
    the rest is for this party alone. Only servers have a `key` and a `library` of models to ask.
    """

    def __init__(
        self, config: PartyConfig, policy: Policy, key: bytes | None, library: Library | None
    ) -> None:
        self._name, self._state = config.name, config.state
        self._key, self._library, self._policy = key, library, policy

    @verb("models", _ROLES, twice=_READS)
    def models(self, caller: Caller, fields: ModelsFields) -> tuple[Fields, Payload]:
        """List the models, or tell about one of them.

        Reply to a list: as payload an object with ``models``, each with model, protocol, run, job,
        populations and analysts. Reply about one: ``left``, the rows that the caller may still
        ask, and of the manifest what others are told as payload, as `ModelManifest.to_json` writes
        it; with what was published behind it, at ``manifest`` bytes. What peers see, they tell each
        other alone.
        """
        if fields.model is None:
            known = [_line(m) for m in list_models(self._state) if self._may_see(caller, m)]
            return {}, json.dumps({"models": known}).encode()
        manifest = self._find_model(caller, fields.model)
        text = manifest.for_others().to_json().encode()
        left, published = 0, b""
        if manifest.protocol in PEER_PROTOCOLS and caller.name in manifest.members:
            seen = opened_document(open_model(self._state, None, manifest.name))
            published = b"" if seen is None else json.dumps(seen).encode()
        elif is_published(manifest.protocol):
            stored = open_model(self._state, self._key, manifest.name)
            published = json.dumps(stored.tree).encode()
        elif caller.role == "analyst" and self._library is not None:
            left = self._library.book(manifest.name).left(self._policy, caller.name)
        return {"left": left, "manifest": len(text)}, [text, published]

    @verb("model-show", _ROLES, twice=_READS)
    def show(self, caller: Caller, fields: ModelFields) -> tuple[Fields, Payload]:
        """Report on a model.

        Reply: as payload a `ModelReport`, as JSON.
        """
        return {}, self.report(caller, fields.model).to_json()

    def report(self, caller: Caller, model: str) -> ModelReport:
        """Return all that a caller may know of a model."""
        manifest = self._find_model(caller, model)
        stored = open_model(self._state, self._key, manifest.name)
        asking: list[Asking] = []
        ledger, rows_left = None, None
        if manifest.protocol in IN_PIECES:
            return self._own_report(caller, stored)
        if not is_published(manifest.protocol) and self._library is not None:
            book, policy = self._library.book(manifest.name), self._policy
            ledger = book.ledger
            shown = [caller.name] if caller.role == "analyst" else sorted(manifest.analysts)
            asking = [
                Asking(analyst=a, asked=book.log.rows_of(a), left=book.left(policy, a))
                for a in shown
            ]
            if caller.role != "analyst":
                rows_left = max(0, policy.queries_per_model - book.log.rows)
        return ModelReport(
            **_line(manifest),
            learned=_ledger_lines(ledger or stored.read_ledger()),
            opened=_openings(Leakage.from_json(stored.leakage)),
            asking=tuple(asking),
            rows_left=rows_left,
            sent=self._sent(manifest),
        )

    def _own_report(self, caller: Caller, stored: StoredModel) -> ModelReport:
        """Report on a tree in pieces: to this party all, also of questions, to others its name."""
        manifest, mine = stored.manifest, caller.name == self._name
        learned: tuple[LedgerLine, ...] = ()
        opened: tuple[Opened, ...] = ()
        asking: dict[str, int] = {}
        if mine:
            store = open_store(self._state)
            # Since the tree was grown, questions may have been charged; marks are in both.
            ledger = DurableLedger(store, manifest.run)
            ledger.parties = stored.read_ledger().parties
            learned = _ledger_lines(ledger)
            # At a site, of setting up and of growing.
            parts = () if stored.tree is None else stored.tree.get("learned", ())
            texts = list(map(json.dumps, parts)) or [stored.leakage]
            opened = tuple(one for text in texts for one in _openings(Leakage.from_json(text)))
            with store.snapshot() as made:
                for row in made.each("questions", model=manifest.name):
                    asking[row["analyst"]] = asking.get(row["analyst"], 0) + row["n"]
        policy, total = self._policy, sum(asking.values())
        return ModelReport(
            **_line(manifest),
            learned=learned,
            opened=opened,
            asking=tuple(
                Asking(analyst=name, asked=n, left=max(0, policy.queries_per_analyst - n))
                for name, n in sorted(asking.items())
            ),
            rows_left=max(0, policy.queries_per_model - total) if mine else None,
            sent=self._sent(manifest) if mine else None,
        )

    def _find_model(self, caller: Caller, model: str) -> ModelManifest:
        """Return a model, if the caller may know it."""
        known = self._library
        manifest = read_manifest(self._state, model) if known is None else known.manifest(model)
        if not self._may_see(caller, manifest):
            if caller.name in manifest.analysts:
                self._policy.check_analysts([caller.name])
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"an analyst that the job of {manifest.name} names",
                found=caller.name,
                fix="ask the owners for a job that names this analyst",
            )
        return manifest

    def _may_see(self, caller: Caller, manifest: ModelManifest) -> bool:
        if caller.role != "analyst" or is_published(manifest.protocol):
            return True
        return caller.name in manifest.analysts and caller.name in self._policy.allowed_analysts

    def _sent(self, manifest: ModelManifest) -> Sent | None:
        """Return what this server has sent in the run, if it has kept that."""
        read = read_meter(open_store(self._state), manifest.run)
        if read is None:
            return None
        return Sent(
            rounds=read.rounds,
            payload=sum(read.payload),
            wire=sum(read.wire),
            offline=sum(read.only(*OFFLINE).payload),
            seconds=max(read.seconds, default=0.0) or None,
        )


def _line(manifest: ModelManifest) -> dict[str, object]:
    return {
        "model": manifest.name,
        "protocol": manifest.protocol,
        "run": manifest.run,
        "job": manifest.job,
        "populations": list(manifest.populations),
        "analysts": list(manifest.analysts),
        "members": list(manifest.members),
    }


def _ledger_lines(ledger: Ledger) -> tuple[LedgerLine, ...]:
    keys = ("audience", "epsilon", "delta", "relation", "why")
    return tuple(LedgerLine(**{key: row[key] for key in keys}) for row in ledger.short_summary())


def _openings(leakage: Leakage) -> tuple[Opened, ...]:
    """Return the declaration with the number of openings beside it."""
    return tuple(
        Opened(
            **{key: row[key] for key in ("name", "audience", "shape", "why")},
            declared=counted["declared"],
            opened=counted["opened"],
        )
        for row, counted in zip(leakage.declaration(), leakage.compare(), strict=True)
    )


class ChargeVerbs:
    """What a server answers about its accounts; `store` knows which run was charged, and whose."""

    def __init__(self, accounts: Accounts, store: RunStore) -> None:
        self._accounts, self._store = accounts, store

    @verb("charges", ("owner", "server"), twice=_READS)
    def charges(self, caller: Caller) -> tuple[Fields, Payload]:
        """List every charge to every population of which the caller has, or had, an upload here.

        To another server, all of them. Reply: as payload an object: by population, a
        `ServerAccount`.
        """
        accounts = self._accounts
        if caller.role == "server":
            names = {*accounts.populations(), *accounts.policy.populations}
        else:
            uploads = [one.summary() for one in list_uploads(accounts.state)]
            # What was charged stays so when its rows are withdrawn.
            uploads += withdrawn_uploads(accounts.state).values()
            names = {one["population"] for one in uploads if one["owner"] == caller.name}
            if not names:
                raise Code.CALLER_NOT_ALLOWED.error(
                    expected="an owner with an upload here, for the accounts of its populations",
                    found=f"{caller.name}, which has none",
                )
        runs = {run.job.account_key: run for run in self._store.all()}
        found = {name: _account(name, accounts, runs).to_dict() for name in sorted(names)}
        return {}, json.dumps(found).encode()


def _account(population: str, accounts: Accounts, runs: dict[str, PartyRun]) -> ServerAccount:
    lifetime = accounts.policy.populations.get(population)
    lines = []
    for charge in accounts.spent(population).charges:
        run = runs.get(charge.key)
        lines.append(
            ChargeLine(
                **vars(charge),
                run="" if run is None else run.id,
                model="" if run is None else run.job.model_name,
                by="" if run is None else run.by,
            )
        )
    return ServerAccount(
        epsilon=None if lifetime is None else lifetime.epsilon,
        delta=None if lifetime is None else lifetime.delta,
        charges=tuple(lines),
    )
