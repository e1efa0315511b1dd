"""What the folder of a party tells of a run or a model, as facts for a report.

A party that takes part has what it needs in its own store, and asks nobody, but for how far a run
is that has not ended. Owners of uploads and analysts keep nothing: they ask those who do, who tell
each of them what it may know.

Reveals: to whoever has the folder, what is in its store and what members answer to it; of models in
shares nothing that is shared, which is not even opened here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.names import complete
from hedgerow.parties.roles.server_reports import ModelClient
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.models import list_models
from hedgerow.reports.facts import Facts
from hedgerow.reports.party_here import facts_here
from hedgerow.reports.party_told import facts_told


class Subject(NamedTuple):
    """What a report is about: a run, and the model that it has made, if there is one."""

    run: str
    model: str | None


def facts_of_party(config: PartyConfig, name: str) -> Facts:
    """Return what a party knows of a run or a model, by its name or the beginning of it.

    H501 where several begin so, H890 where nobody that the party may ask knows one.
    """
    here = {run.id: None for run in RunStore(config.state).all()}
    found = _find(name, here, {one.name: one.run for one in list_models(config.state)})
    if found is not None:
        return facts_here(config, found.run, found.model)
    found = _find(name, *_known_elsewhere(config))
    if found is None:
        raise Code.UNKNOWN_RUN.error(
            expected=f"a run or a model that {config.name} knows of",
            found=name,
            fix="hedgerow runs list and hedgerow models list show which there are; a model file is "
            "named with its ending",
        )
    return facts_told(config, found.run, found.model)


def _known_elsewhere(config: PartyConfig) -> tuple[Iterable[str], Mapping[str, str]]:
    """Return the runs and the models that members tell this party about; raise if none answers."""
    told = RunClient(config).list()
    refusals = [one for one in told.values() if isinstance(one, HedgerowError)]
    if len(refusals) == len(told):
        raise refusals[0]
    runs = [line.run for lines in told.values() if isinstance(lines, tuple) for line in lines]
    return runs, {shelf.line.model: shelf.line.run for shelf in ModelClient(config).list()[0]}


def _find(name: str, runs: Iterable[str], models: Mapping[str, str]) -> Subject | None:
    """Return what is called so, or begins so; a run and its own model are the same."""
    made = {run: model for model, run in models.items()}
    run_of = {**{run: run for run in (*runs, *made)}, **models}
    begins = [one for one in run_of if one.startswith(name)] if name else []
    if name not in begins and len({run_of[one] for one in begins}) > 1:
        complete(name, begins, "run or model")
    if not begins:
        return None
    run = run_of[name if name in begins else begins[0]]
    return Subject(run, made.get(run))
