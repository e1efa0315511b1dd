"""What a fitted estimator tells of itself, as facts for a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.registry import PEER_PROTOCOLS
from hedgerow.protocols.vertical_id3.leakage import COMMON
from hedgerow.reports import job_words
from hedgerow.reports.facts import Facts, Openings, RunCost, Setting, StageCost
from hedgerow.reports.records import cost_of, learned_by, openings_of
from hedgerow.reports.visible import Visible, visible_among_peers, visible_on_servers
from hedgerow.reports.words import kind_of
from hedgerow.tables import Domain
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.forest import Forest
from hedgerow.trees.tree import Tree

_PLAYED = (
    "Everybody was played by one person on one machine, who has all of the rows: what separates "
    "the parties here is the program, and nothing else. Between organisations it is the same."
)


def facts_of_estimator(model: Any) -> Facts:
    """Return what there is to tell of an estimator that is fitted, whichever it is.

    Attributes are those that all estimators of a kind share; what one does not have is not told.
    """
    plan, ledger = getattr(model, "plan_", None), getattr(model, "privacy_", None)
    setting, seen = _setting(model, plan, ledger), _visible(model, plan)
    kind = _kind(model, plan) if seen.model is None else kind_of(seen.model)
    played = setting not in ("clear", "holder")
    return Facts(
        name=type(model).__name__,
        kind=kind,
        setting=setting,
        domain=getattr(model, "domain_", None),
        model=seen.model,
        ledger=ledger,
        notes=tuple(filter(None, (_PLAYED if played else "", seen.note))),
        openings=_openings(model, plan),
        costs=_costs(model, plan),
        parameters=tuple(
            (key, _shown(value)) for key, value in model.get_params(deep=False).items()
        ),
        hidden=seen.hidden,
        numbers=seen.numbers,
    )


def _setting(model: Any, plan: Any, ledger: Ledger | None) -> Setting:
    if ledger is None:
        return "clear"
    if hasattr(model, "sites_"):
        return "sites and servers" if model.cardinality == "secret" else "sites"
    if isinstance(plan, PeerPlan):
        return "peers"
    if isinstance(plan, ServerPlan) and hasattr(model, "meter_"):
        return "servers" if hasattr(model, "tree_") else "hidden servers"
    if getattr(plan, "n_owners", 1) > 1:
        return "owners" if getattr(model, "secure_run_", None) is None else "owners and servers"
    return "holder"


def _visible(model: Any, plan: Any) -> Visible:
    if hasattr(model, "sites_"):
        note = "The whole tree is put together here from its pieces: no site sees it so."
        return Visible(model.joined_tree(), note=note)
    if isinstance(plan, PeerPlan):
        return visible_among_peers(plan, model.run_.model)
    public = getattr(model, type(model)._model_name)
    if isinstance(public, Tree | Forest | Boosted):
        return Visible(public)
    if isinstance(getattr(model, "tree_", None), Tree):
        return Visible(model.tree_)
    return visible_on_servers(plan)


def _kind(model: Any, plan: Any) -> str:
    protocol = type(model)._protocol
    if not isinstance(protocol, str):
        protocol = next(name for name, one in PEER_PROTOCOLS.items() if one is protocol)
    return job_words.kind_of_plan(protocol, plan)


def _openings(model: Any, plan: Any) -> tuple[Openings, ...]:
    learned = getattr(model, "what_was_learned_", None)
    if isinstance(learned, Mapping):
        if _hides_rows(model, plan):
            # A value for each row; that it was seen stands in the ledger.
            learned = {
                who: [r for r in rows if r["name"] != COMMON] for who, rows in learned.items()
            }
        return tuple(openings_of(f"What {who} learned", rows) for who, rows in learned.items())
    leakage = getattr(model, "leakage_", None)
    if leakage is None:
        return ()
    names = {f"server {i}": f"server {i}" for i in range(3)} | {"analyst": "the analyst"}
    return learned_by([leakage], names, published=hasattr(model, "tree_"))


def _hides_rows(model: Any, plan: Any) -> bool:
    """Whether noise among those who align rows has an epsilon: no page may then tell how many."""
    if isinstance(plan, PeerPlan):
        return plan.is_private
    return hasattr(model, "sites_") and model.sites_[0].job.epsilon is not None


def _costs(model: Any, plan: Any) -> tuple[RunCost, ...]:
    if _hides_rows(model, plan):
        # It follows from the number of rows.
        return ()
    readings: Iterable[tuple[str, str]] = (
        ("offline_", "Offline, which needs no target and may be done ahead"),
        ("online_", "Online"),
        ("meter_", "Among the servers"),
        ("server_traffic_", "Among the servers"),
    )
    found = [(title, getattr(model, name, None)) for name, title in readings]
    costs = [cost_of(title, reading) for title, reading in found if reading is not None]
    secure = getattr(model, "secure_run_", None)
    if secure is not None and secure.meter is not None:
        costs.append(cost_of("Among the servers", secure.meter))
    asked = getattr(model, "traffic_", None)
    if asked is not None and model.plan_.n_owners > 1:
        sides = ("the coordinator", asked.sent), ("the owners", asked.received)
        rows = tuple(StageCost(who, asked.rounds, octets, octets) for who, octets in sides)
        costs.append(RunCost("Between coordinator and owners", rows, by="party"))
    return tuple(costs)


def _shown(value: object) -> str:
    if isinstance(value, Domain):
        return "the one below the name of data domain"
    return "not set" if value is None else str(value)
