"""One table, one private model and its files: what ``hedgerow fit`` does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EACCES, ENOTDIR
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.errors import Code, MissingExtraError
from hedgerow.estimators.account import account_of
from hedgerow.estimators.curated import CuratedEstimator
from hedgerow.estimators.dp_auto import CLASSIFIERS, REGRESSORS
from hedgerow.estimators.dp_boosting import DPBoostingClassifier, DPBoostingRegressor
from hedgerow.estimators.dp_tree import DPTreeClassifier
from hedgerow.estimators.median_forest import MedianForestClassifier, MedianForestRegressor
from hedgerow.estimators.topdown_tree import TopDownTreeClassifier
from hedgerow.parties.store.durable import replacing
from hedgerow.privacy import Ledger
from hedgerow.protocols.choice import ModelChoice, choose_model
from hedgerow.protocols.forecast import NoiseForecast, forecast
from hedgerow.reports.privacy_curve import privacy_curve
from hedgerow.tables import Batches, Domain, SqlQuery, TextFormat, read_batches, read_table
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.parquet_pieces import Piece

Model = (
    DPTreeClassifier
    | TopDownTreeClassifier
    | MedianForestClassifier
    | MedianForestRegressor
    | DPBoostingClassifier
    | DPBoostingRegressor
)
Tell = Callable[[str, int, int], None]
_ROWS = 1 << 18


# Private models of one table; "auto" is one of the others, by a public rule. Which options each
# has, and what its estimator calls them.
OPTIONS: dict[str, dict[str, str]] = {
    "auto": {"delta": "delta"},
    "tree": {"depth": "max_depth"},
    "topdown": {"depth": "max_depth"},
    "median-forest": {"trees": "n_estimators", "depth": "max_depth"},
    "boosting": {"trees": "n_estimators", "leaves": "max_leaves", "delta": "delta"},
}


class Files(NamedTuple):
    """Where a fit is written to."""

    model: Path
    ledger: Path
    plot: Path
    owner_only: Path

    @classmethod
    def at(cls, out: Path) -> Files:
        """Read ``--out``: the model's file, with the others beside it, or a folder for all."""
        if out.suffix.lower() == ".json":
            endings = ".ledger.json", ".privacy.png", ".owner-only.json"
            return cls(out, *(out.with_suffix(ending) for ending in endings))
        names = "model.json", "ledger.json", "privacy.png", "owner-only.json"
        return cls(*(out / name for name in names))

    def prepare(self, *, force: bool) -> None:
        """Refuse files that are there, H902, unless they may be replaced, and a bad folder, H869.

        Nothing is made yet: a fit that is refused leaves nothing behind.
        """
        with _as_not_written():
            found = [str(path) for path in self if path.exists()]
            if found and not force:
                raise Code.FILE_EXISTS.error(found=", ".join(found))
            folder = self.model.parent
            while not folder.exists() and folder != folder.parent:
                folder = folder.parent
            if not folder.is_dir():
                raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(folder))
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(EACCES, os.strerror(EACCES), str(folder))

    def make_folder(self) -> list[Path]:
        """Make the folder, or raise H869; return what was made, the innermost folder first."""
        folder = self.model.parent
        with _as_not_written():
            missing = [f for f in (folder, *folder.parents) if not f.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        return missing


@contextmanager
def _as_not_written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Code.STATE_NOT_WRITTEN.error(
            expected="a folder for --out that can be made and written to",
            found=f"{error.filename}: {error.strerror}",
            fix="choose another --out",
        ) from None


@dataclass
class ChargeProgress:
    """How far the charge of a fit has come, for whoever interrupts it.

    An account may be charged once it has begun; nothing is drawn before it is stated, on disk.
    """

    begun: bool = False
    stated: bool = False


def choice_of(kind: str, domain: Domain, epsilon: float, *, in_memory: bool = True) -> ModelChoice:
    """Return what ``--model auto`` trains, and why; see `choose_model`. Other kinds are named."""
    if kind == "auto":
        return choose_model(domain, epsilon, domain.capacity, in_memory=in_memory)
    return ModelChoice(kind, "it was named")


def private_model(
    kind: str,
    domain: Domain,
    *,
    epsilon: float,
    seed: int | None = None,
    in_memory: bool = True,
    **options: Any,
) -> Model:
    """Return the estimator of a kind, of `OPTIONS`, for the task of a domain.

    `options` are those in `OPTIONS`, ``account`` and ``bad_rows`` ("absorb" by default); None where
    they were not given. A delta that may expose people is warned of. H501 for an option that the
    kind does not have, H116 for a target that it cannot learn, H208 for "auto" without a capacity.
    """
    parameters: dict[str, Any] = {"account": options.pop("account", None), "random_state": seed}
    parameters["bad_rows"] = options.pop("bad_rows", "absorb")
    for name, value in options.items():
        if value is None:
            continue
        if name not in OPTIONS[kind]:
            known = ", ".join(f"--{option}" for option in OPTIONS[kind])
            raise Code.BAD_PARAMETER.error(
                expected=f"an option of {kind}: {known}", found=f"--{name}", fix="leave it out"
            )
        parameters[OPTIONS[kind][name]] = value
    if kind == "auto":
        kind = choice_of(kind, domain, epsilon, in_memory=in_memory).model
        if kind != "boosting":
            # What holds without a delta holds at any.
            parameters.pop("delta", None)
    numbers = domain.target is not None and domain.target.bounds is not None
    made = REGRESSORS if numbers else CLASSIFIERS | {"topdown": TopDownTreeClassifier}
    if kind not in made:
        raise Code.BAD_TARGET.error(
            expected="a target with classes",
            found="a target with bounds",
            fix="choose median-forest or boosting for numbers",
        )
    model: Model = made[kind](epsilon, domain, **parameters)
    if isinstance(model, DPBoostingClassifier | DPBoostingRegressor):
        model._warn_of_delta(domain)
    return model


def fit_table(
    model: Model,
    table: Path | SqlQuery,
    files: Files,
    *,
    tell: Tell = lambda stage, done, of: None,
    charge: ChargeProgress | None = None,
    text: TextFormat | None = None,
) -> None:
    """Fit a model to a file and write model, ledger and privacy curve, to prepared files.

    Where rows are absorbed, what was done to them is in a file for the owner's eyes only, and
    nothing else here depends on a row but through the noise. The ledger is on the disk before
    anything is drawn, so that an interrupted fit has stated what it charged. Every file is there as
    a whole or not at all. Without matplotlib there is no curve.

    The table is CSV, Parquet, Arrow or a query; for forests and boosting also a folder of Parquet
    files, and larger than memory. `tell` hears the stage, how far it is and how far it goes; 0 of 0
    where that is not known. H207 before a row is read if the model's account cannot pay, or has a
    budget and the model promises nothing; and what `fit` raises.
    """
    how_far = ChargeProgress() if charge is None else charge
    domain = model.domain
    assert domain is not None
    if domain.is_public:
        model._check_account(model.plan(domain))

    made: list[Path] = []

    def charging() -> None:
        # A folder that cannot be made must cost nothing.
        made.extend(files.make_folder())
        how_far.begun = True

    def charged(ledger: Ledger) -> None:
        # Until now a refusal left everything as it was; an older model is not of this ledger.
        files.model.unlink(missing_ok=True)
        files.plot.unlink(missing_ok=True)
        files.owner_only.unlink(missing_ok=True)
        _write(files.ledger, ledger.to_json())
        how_far.stated = True

    model._charging, model._charged = charging, charged
    read = AbsorbedRows() if model._absorbs() else None
    try:
        _fit(model, table, domain, tell, text or TextFormat(), read)
    except BaseException:
        # The account may refuse at the last moment; folders with something in them stay.
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise
    _write(files.model, model.to_json())
    if read is not None:
        model.owner_only_.add(read)
        with replacing(files.owner_only) as file:
            file.write(model.owner_only_.to_json().encode("utf-8"))
    tell("drawing the privacy curve", 0, 0)
    title = f"{type(model).__name__}, epsilon {model.epsilon:g}"
    try:
        picture = privacy_curve(model.privacy_, title=title)
    except MissingExtraError:
        # The budget is spent and the model is there: a picture less is no reason to fail.
        return
    with replacing(files.plot) as file:
        file.write(picture)


def _fit(
    model: Model,
    table: Path | SqlQuery,
    domain: Domain,
    tell: Tell,
    text: TextFormat,
    absorbed: AbsorbedRows | None,
) -> None:
    tell("reading", 0, 0)
    if isinstance(model, DPBoostingClassifier | DPBoostingRegressor):
        model._tell = lambda done, of: tell("rounds", done, of)
    if isinstance(model, CuratedEstimator):
        model.fit(_batches(table, domain, text, absorbed))
    else:
        rows = read_table(table, domain=domain, text=text, absorbed=absorbed)
        name = "" if domain.target is None else domain.target.name
        if name not in rows.column_names:
            raise Code.MISSING_COLUMN.error(found=f"no column {name!r}, the target, in {table}")
        tell("growing", 0, 0)
        model.fit(rows, rows.column(name))


def forecast_of(model: Model) -> NoiseForecast:
    """Return how large the noise of a fit will be beside what it hides, from public numbers."""
    domain = model.domain
    return forecast(model.plan(domain)) if domain and domain.is_public else NoiseForecast(())


def account_summary(model: Model) -> dict[str, Any] | None:
    """Return what the account of a model says now; None without one."""
    account = account_of(model.account)
    if account is None:
        return None
    spent, budget = account.spent(), account.ledger.budget
    return {
        "fits": len(account.costs()),
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "of": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
    }


def _batches(
    table: Path | SqlQuery, domain: Domain, text: TextFormat, absorbed: AbsorbedRows | None
) -> Batches:
    """Return the rows in pieces; what is not Parquet is read again where memory is short."""
    if isinstance(table, Path) and (os.path.isdir(table) or table.suffix.lower() == ".parquet"):
        return Batches(table, domain, may_be_empty=absorbed is not None)
    # What the first pass counts, the later ones count for nobody.
    tallies = chain([absorbed], repeat(None if absorbed is None else AbsorbedRows()))

    def pieces() -> Iterator[Piece]:
        # As pieces they have a name and the right numbers of rows in messages.
        tables = read_batches(table, domain=domain, rows=_ROWS, text=text, absorbed=next(tallies))
        return (Piece(i, str(table), i * _ROWS, rows) for i, rows in enumerate(tables))

    return Batches(pieces, domain)


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
