"""With an account no outcome of a fit depends on a row but through the mechanisms."""

import json
import pickle
import warnings
from collections import Counter, UserList, deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import (
    Account,
    Attribute,
    Domain,
    DPBoostingClassifier,
    DPBoostingRegressor,
    DPTreeClassifier,
    HiddenTreeClassifier,
    MedianForestClassifier,
    MedianForestRegressor,
    PivotTreeClassifier,
    Target,
    TopDownTreeClassifier,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.pivot import programs
from hedgerow.protocols.vertical_id3.leakage import COMMON
from hedgerow.reports.estimator import facts_of_estimator
from hedgerow.tables import Batches, Encoded, encode
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.encode import rows_within
from tests.tables.table_strategies import relaxed

AGE = Attribute(name="age", kind="numeric", bounds=(0, 100), bins=5, outside="error")
WARD = Attribute(name="ward", kind="categorical", categories=("a", "b"))
CLASSES = Domain(attributes=(AGE, WARD), target=Target(name="ill", classes=(0, 1)), capacity=20)
NUMBERS = CLASSES.model_copy(
    update={"target": Target(name="days", bounds=(0, 10), outside="error")}
)
MODELS: list[tuple[Callable[..., Any], Domain]] = [
    (DPTreeClassifier, CLASSES),
    (TopDownTreeClassifier, CLASSES),
    (MedianForestClassifier, CLASSES),
    (MedianForestRegressor, NUMBERS),
    (DPBoostingClassifier, CLASSES),
    (DPBoostingRegressor, NUMBERS),
    (HiddenTreeClassifier, CLASSES),
]
BAD = [[-5, "a"], [None, "z"], ["x", None], [timedelta(1), 7], [3], [1, "a", 2], None]
TABLES = {
    "none": ([], []),
    "one": ([[30, "a"]], [1]),
    "bad": ([*BAD, *[[40, "b"]] * 3], [0, 1, 0, 1, None, "q", 9, 0, 1, 0]),
    "over the capacity": ([[50, "a"]] * 33, [0, 1, 1] * 11),
}


def an_account() -> Account:
    return Account(Ledger(budget=100.0, delta=1e-3))


def finds_by_refusals(fit: Callable[[int], None], highest: int) -> int:
    """Return the smallest number at which a fit is not refused, by bisection."""
    low, high = 0, highest
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fit(middle)
            high = middle
        except HedgerowError:
            low = middle
    return high


def fit_tree(domain: Domain, ages: list[int], **parameters: Any) -> None:
    y = [age % 2 for age in ages]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        model = DPTreeClassifier(1e-6, domain, max_depth=1, **parameters)
        model.fit([[age, "a"] for age in ages], y)


def test_the_number_of_rows_is_not_found_by_varying_the_capacity() -> None:
    ages = [30] * 613

    def fit(capacity: int, **parameters: Any) -> None:
        fit_tree(CLASSES.model_copy(update={"capacity": capacity}), ages, **parameters)

    # Whoever holds the rows may see errors; by these anybody finds their number in ten fits.
    assert finds_by_refusals(lambda n: fit(n, bad_rows="error"), 1024) == 613
    account = an_account()
    assert finds_by_refusals(lambda n: fit(n, account=account), 1024) == 1
    assert len(account.costs()) == 10


def test_the_largest_value_is_not_found_by_varying_a_bound() -> None:
    ages = [*range(20, 60), 87]

    def fit(bound: int, **parameters: Any) -> None:
        age = AGE.model_copy(update={"bounds": (0.0, float(bound))})
        fit_tree(
            Domain(attributes=(age, WARD), target=CLASSES.target, capacity=100), ages, **parameters
        )

    assert finds_by_refusals(lambda n: fit(n, bad_rows="error"), 128) == 87
    account = an_account()
    assert finds_by_refusals(lambda n: fit(n, account=account), 128) == 1


@pytest.mark.parametrize(
    ("kind", "domain"), MODELS, ids=lambda value: getattr(value, "__name__", "")
)
def test_nothing_but_the_noise_differs_between_tables(kind: Any, domain: Domain) -> None:
    shown = set()
    for rows, y in TABLES.values():
        model = kind(1.0, domain, account=an_account())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows, y)
        fitted = sorted(name for name in vars(model) if name.endswith("_"))
        said = [str(warning.message) for warning in caught if warning.category is HedgerowWarning]
        ledger = str(model.privacy_)
        if kind is not HiddenTreeClassifier:
            assert "at most 20 rows" in ledger
        shown.add((tuple(fitted), tuple(said), ledger, repr(model), repr(model.owner_only_)))
        if hasattr(model, "to_json"):
            assert "owner" not in model.to_json()
        assert not hasattr(
            pickle.loads(pickle.dumps(model.set_params(account=None))), "owner_only_"
        )
    assert len(shown) == 1


def test_without_an_account_whoever_holds_the_rows_is_told() -> None:
    for rows, y in TABLES.values():
        if len(rows) == 1:
            continue
        with pytest.raises(HedgerowError):
            DPTreeClassifier(1.0, CLASSES).fit(rows, y)
        with pytest.raises(HedgerowError):
            DPTreeClassifier(1.0, CLASSES, account=an_account(), bad_rows="error").fit(rows, y)
    with pytest.raises(HedgerowError) as caught:
        DPTreeClassifier(1.0, CLASSES, bad_rows="drop").fit([[1, "a"]], [0])
    assert caught.value.code is Code.BAD_PARAMETER


def test_the_rules_are_those_that_the_page_states() -> None:
    absorbed = AbsorbedRows()
    rows = [[-5, "a"], [500, "b"], [None, None], ["x", "z"], [[1], 7], [10, "b"]]
    encoded = encode(rows, CLASSES, [0, 1, 1, None, 1, 3], absorbed=absorbed)
    # Clipped, clipped, the middle bin and the first category; two rows without a target.
    assert encoded.bins.tolist() == [[0, 0], [4, 1], [2, 0], [2, 0], [2, 0], [0, 1]]
    assert encoded.present.tolist() == [True, True, True, False, True, False]
    own = CLASSES.model_copy(
        update={
            "attributes": (
                AGE.model_copy(update={"missing": "own bin"}),
                WARD.model_copy(update={"missing": "own bin", "outside": "clip"}),
            )
        }
    )
    bins = encode(rows, own, [0] * 6, absorbed=AbsorbedRows()).bins
    assert bins.tolist() == [[0, 0], [4, 1], [5, 3], [5, 2], [5, 2], [0, 1]]
    counts = json.loads(absorbed.to_json())
    assert counts.pop("note").startswith("For the owner's eyes only")
    assert counts == {
        "values": {
            "x0": {"clipped": 2, "missing": 1, "unreadable": 2},
            "x1": {"missing": 1, "unlisted": 1, "unreadable": 1},
        },
        "rows without a target": 2,
        "rows without an id of their own": 0,
        "rows over the capacity": 0,
        "broken lines": 0,
    }


PEERS = CLASSES.model_copy(update={"capacity": 8})
PEER_TABLES: dict[str, tuple[list[Any], ...]] = {
    "none": ([], [], [], []),
    "plain": ([30, 80, 50], ["a", "b", "a"], [0, 1, 0], [7, 8, 9]),
    "bad": ([-5, "x", None, 50], [None, "z", 7, "a"], [0, None, "q", 1], [7, 7, None, "x"]),
    "over the capacity": ([50] * 20, ["a", "b"] * 10, [0, 1] * 10, list(range(20))),
}


@pytest.mark.parametrize("ids", [False, True])
def test_nothing_but_the_noise_differs_between_tables_of_peers(ids: bool) -> None:
    shown = set()
    for ages, wards, y, names in PEER_TABLES.values():
        # No budget pays for what a ring shows to peers: who is common.
        account = Account(Ledger()) if ids else an_account()
        model = PivotTreeClassifier(
            n_peers=2,
            domain=PEERS,
            max_depth=1,
            noise="splits+leaves",
            epsilon=1.0,
            account=account,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if ids:
                # One id is a text, at one peer; a row more is at the other.
                tables = {"age": ages}, {"ward": [*wards, "a"]}
                model.fit_peers(tables, [None, [*y, 0]], [names, [*names, "new"]])
            else:
                model.fit_peers(({"age": ages}, {"ward": wards}), [None, y])
        said = [str(warning.message) for warning in caught if warning.category is HedgerowWarning]
        ledger = str(model.privacy_)
        assert "at most 8 rows" in ledger
        assert model.tree_.n_nodes == 3
        copy = pickle.loads(pickle.dumps(model.set_params(account=None)))
        assert copy.online_ is copy.offline_ is None
        assert model.online_.payload
        shown.add((tuple(said), ledger, repr(model), repr(model.owner_only_)))
        if ids:
            continue
        model.set_params(account=an_account())
        whole = PivotTreeClassifier(**model.get_params())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HedgerowWarning)
            whole.fit([list(row) for row in zip(ages, wards, strict=True)], y)
        assert whole.tree_.n_nodes == 3
    assert len(shown) == 1


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_nothing_but_the_noise_differs_between_tables_of_owners(partition: str) -> None:
    shown = set()
    for ages, wards, y, names in PEER_TABLES.values():
        model = HiddenTreeClassifier(
            epsilon=1.0,
            domain=PEERS,
            account=an_account(),
            partition=partition,
            max_depth=1,
            engine="clear",
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if partition == "vertical":
                # One id is a text, at one owner; a row more is at the other.
                tables = {"age": ages}, {"ward": [*wards, "a"]}
                model.fit_owners(tables, [None, [*y, 0]], [names, [*names, "new"]], slots=[6, 7])
            else:
                rows = [list(row) for row in zip(ages, wards, strict=True)]
                model.fit_owners([rows, [[30, "a"]]], [y, [0]], slots=[6, 2])
        said = [str(warning.message) for warning in caught if warning.category is HedgerowWarning]
        ledger = str(model.privacy_)
        assert f"at most {6 if partition == 'vertical' else 2} rows" in ledger
        learned = [str(model.what_was_learned(who)) for who in ("server 0", "analyst")]
        shown.add((tuple(said), ledger, repr(model), repr(model.owner_only_), *learned))
    assert len(shown) == 1


def test_the_number_of_rows_of_owners_of_columns_is_not_found() -> None:
    ids, y = list(range(37)), [i % 2 for i in range(37)]
    tables = {"age": ids}, {"ward": ["a"] * 37}

    def fit(capacity: int, **parameters: Any) -> None:
        model = HiddenTreeClassifier(
            1e-5,
            CLASSES.model_copy(update={"capacity": capacity}),
            partition="vertical",
            max_depth=1,
            engine="clear",
            **parameters,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HedgerowWarning)
            model.fit_owners(tables, [None, y], [ids, ids])

    assert finds_by_refusals(fit, 64) == 37
    assert finds_by_refusals(lambda n: fit(n, account=an_account()), 64) == 1


def test_owners_of_columns_leave_out_what_one_of_them_cannot_use() -> None:
    """By ids, the same at all; the tree is that of the rows that are left."""
    ids = list(range(12))
    ages, wards = [10, 90] * 6, ["a", "b", "b"] * 4
    y = ["q", None, *[int(age > 50) for age in ages[2:]]]
    exact = {"noise": "none", "partition": "vertical", "max_depth": 1, "engine": "clear"}
    model = HiddenTreeClassifier(1.0, CLASSES, bad_rows="absorb", **exact)
    model.fit_owners(({"age": ages}, {"ward": wards}), [y, None], [ids, [*ids[:-2], 7, None]])
    assert (model.owner_only_.without_target, model.owner_only_.without_id) == (2, 3)
    tidy = HiddenTreeClassifier(1.0, CLASSES, **exact)
    clean = [i for i in ids[2:10] if i != 7]
    tidy.fit([[ages[i], wards[i]] for i in clean], [y[i] for i in clean])
    asked = pd.DataFrame({"age": [10, 10, 90, 90], "ward": ["a", "b", "a", "b"]})
    assert model.predict(asked).tolist() == [0, 0, 1, 1]
    assert tidy.predict(asked.to_numpy()).tolist() == [0, 0, 1, 1]
    with pytest.raises(HedgerowError, match=r"H107.*rows in a list at owner 0"):
        model.fit_owners([[[age] for age in ages], {"ward": wards}], [y, None], [ids, ids])


def test_an_account_pays_for_every_evaluation() -> None:
    account, other = an_account(), Account(Ledger())
    model = HiddenTreeClassifier(2.0, CLASSES, max_depth=1, engine="clear", account=account)
    rows, y = [[30, "a"], [70, "b"]] * 3, [0, 1] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        model.fit(rows, y)
    for _ in range(3):
        model.evaluate(rows, y, epsilon=0.5)
    assert account.spent().epsilon == pytest.approx(2.0 + 3 * 0.5)
    assert "evaluation of HiddenTreeClassifier" in account.costs()[-1].fit
    # A table without noise cannot be paid for, and one beyond the budget is not drawn.
    for epsilon in (None, 97.0):
        with pytest.raises(HedgerowError) as caught:
            model.evaluate(rows, y, epsilon=epsilon)
        assert caught.value.code is Code.BUDGET_EXCEEDED
    assert [run.what for run in model.runs_].count("evaluate") == 3
    # Those who were held out may have an account of their own.
    model.evaluate(rows, y, epsilon=0.25, account=other)
    assert other.spent().epsilon == 0.25
    model.evaluate(rows, y, epsilon=None, account=other)
    assert other.spent().epsilon == np.inf
    assert account.spent().epsilon == pytest.approx(3.5)
    seeded = HiddenTreeClassifier(2.0, CLASSES, max_depth=1, engine="clear", random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        seeded.fit(rows, y)
    with pytest.raises(HedgerowError, match="H207"):
        seeded.evaluate(rows, y, epsilon=0.5, account=account)


def test_no_row_refuses_an_evaluation_that_an_account_pays_for() -> None:
    model = HiddenTreeClassifier(2.0, CLASSES, max_depth=1, engine="clear")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        model.fit([[30, "a"], [70, "b"]] * 3, [0, 1] * 3)
    for rows, y in TABLES.values():
        found = model.evaluate(rows, y, epsilon=500.0, account=Account(Ledger()), slots=4)
        # Three of the bad ones have a class; of those beyond the slots the first are counted.
        usable = [label for label in y if label in (0, 1)]
        assert found.table.sum() == min(4, len(usable))
        assert "at most 4 rows" in str(found.privacy)
    with pytest.raises(HedgerowError):
        model.evaluate(*TABLES["bad"], epsilon=1.0)
    with pytest.raises(HedgerowError, match=r"H112.*33 rows"):
        model.evaluate(*TABLES["over the capacity"], epsilon=1.0, slots=4)


@pytest.mark.parametrize("other", [[0, 1, 0], [0, 1, 1]])
def test_what_is_said_of_a_target_at_all_peers_does_not_depend_on_it(other: list[int]) -> None:
    model = PivotTreeClassifier(
        n_peers=2, domain=PEERS, noise="splits+leaves", epsilon=1.0, account=an_account()
    )
    tables = {"age": [30, 80, 50]}, {"ward": ["a", "b", "a"]}
    with pytest.raises(HedgerowError, match=r"H755.*target at all of them"):
        model.fit_peers(tables, [[0, 1, 0], other], [[1, 2, 3]] * 2)


def test_servers_say_of_which_tables_add_remove_holds() -> None:
    model = HiddenTreeClassifier(
        500.0, CLASSES, max_depth=1, engine="clear", account=Account(Ledger())
    )
    rows, y = [[30, "a"], [70, "b"]] * 3, [0, 1] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        assert "at most 20 rows" in str(model.fit(rows, y).privacy_)
        owners = ([rows, rows], [y, y])
        model.fit_owners(*owners)
        assert "at most 10 rows" in str(model.privacy_)
        model.predict(rows)
        assert "at most 10 rows" in str(model.privacy_)
        model.fit_owners(*owners, slots=[7, 9])
        assert "at most 7 rows" in str(model.privacy_)
        model.set_params(account=None, bad_rows="error").fit(rows, y)
        assert not model.privacy_.condition


def test_peers_leave_out_what_one_of_them_cannot_use() -> None:
    """By places, at all of them; the tree is that of the rows that are left."""
    # One cut alone is best, so that what little noise there is decides nothing.
    ages, wards = [50, 70, "x", 70, 50, 70, 70], ["a", "b", None, "a", "b", "q", "a"]
    y, clean = [0, 1, None, 1, 0, "q", 1], [0, 1, 3, 4, 6]
    noisy = PivotTreeClassifier(
        n_peers=2, domain=PEERS, max_depth=1, noise="splits+leaves", epsilon=600.0
    )
    with pytest.raises(HedgerowError):
        noisy.fit_peers(({"age": ages}, {"ward": wards}), [None, y])
    noisy.set_params(bad_rows="absorb")
    noisy.fit_peers(({"age": ages}, {"ward": wards}), [None, y])
    assert noisy.owner_only_.without_target == 2
    tidy = PivotTreeClassifier(**noisy.get_params() | {"bad_rows": "error"})
    tidy.fit([[ages[i], wards[i]] for i in clean], [y[i] for i in clean])
    assert noisy.tree_.to_dict() == tidy.tree_.to_dict()
    # What one of them cannot use keeps its place: the others see as much as if it could be used.
    usable = PivotTreeClassifier(**noisy.get_params())
    usable.fit_peers(({"age": ages}, {"ward": wards}), [None, [0, 1, 1, 1, 0, 0, 1]])
    assert noisy.online_.payload == usable.online_.payload
    assert noisy.offline_.payload == usable.offline_.payload
    dealt = PivotTreeClassifier(**noisy.get_params())
    dealt.fit([list(row) for row in zip(ages, wards, strict=True)], y)
    assert dealt.online_.payload == usable.online_.payload
    assert dealt.tree_.to_dict() == tidy.tree_.to_dict()
    # Exact trees promise nothing that an error would break.
    exact = PivotTreeClassifier(n_peers=2, domain=PEERS, bad_rows="absorb")
    with pytest.raises(HedgerowError):
        exact.fit_peers(({"age": ages}, {"ward": wards}), [None, y])


def test_the_capacity_of_a_ring_is_that_of_common_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others a peer has; of more in common all peers keep the same ones."""
    trained: list[int] = []
    monkeypatch.setattr(programs, "check_rows", lambda plan, table: trained.append(table.n))
    many, few = list(range(300)), [*range(0, 300, 25), *range(1000, 1010)]
    for capacity, kept in ((20, 12), (8, 8)):
        trained.clear()
        model = PivotTreeClassifier(
            domain=PEERS.model_copy(update={"capacity": capacity}),
            max_depth=1,
            noise="splits+leaves",
            epsilon=600.0,
            bad_rows="absorb",
        )
        ages = [90 if i % 2 else 10 for i in few]
        tables = {"ward": ["a"] * len(many)}, {"age": ages}
        model.fit_peers(tables, [None, [int(age > 50) for age in ages]], [many, few])
        assert trained == [kept, kept]
        assert model.predict(pd.DataFrame({"age": [10, 90], "ward": ["a", "a"]})).tolist() == [0, 1]
        learned = model.what_was_learned_["peer 0"]
        assert [row["values"] for row in learned if row["name"] == COMMON] == [300]
        copy = pickle.loads(pickle.dumps(model))
        assert COMMON not in {row["name"] for row in copy.what_was_learned_["peer 0"]}
        assert COMMON not in str(copy.run_.leakages[0])
        shown = facts_of_estimator(model).openings
        assert COMMON not in {row.name for part in shown for row in part.rows}


@relaxed
@given(
    st.lists(st.sets(st.integers(0, 40), min_size=3), min_size=2, max_size=4),
    st.integers(1, 12),
    st.integers(41, 60),
    st.randoms(use_true_random=False),
)
def test_beyond_the_capacity_one_more_record_at_all_peers_replaces_one_at_most(
    tables: list[set[int]], capacity: int, more: int, order: Random
) -> None:
    def common(added: set[int]) -> set[int]:
        kept = []
        for table in tables:
            ids = list(table | added)
            order.shuffle(ids)
            there = np.ones(len(ids), dtype=np.bool_)
            rows = rows_within(there, capacity, AbsorbedRows(), np.array(ids))
            assert len(rows) == min(capacity, len(ids))
            kept.append({ids[row] for row in rows})
        return set.intersection(*kept)

    before, after = common(set()), common({more})
    assert len(before - after) <= 1
    assert len(after - before) <= 1


@pytest.mark.parametrize("place", [0, 2, 5])
def test_beyond_the_capacity_one_more_record_replaces_one_at_most(place: int) -> None:
    rows = [[10 * k, "a"] for k in range(8)]

    def kept(table: list[list[Any]]) -> list[tuple[int, ...]]:
        encoded = encode(table, CLASSES, [0] * len(table), absorbed=AbsorbedRows())
        inside = encoded.within_capacity(5, AbsorbedRows())
        return [tuple(row) for row in inside.bins[inside.present].tolist()]

    before, after = kept(rows), kept([*rows[:place], [99, "b"], *rows[place:]])
    assert len(before) == len(after) == 5
    assert (Counter(before) - Counter(after)).total() <= 1


def test_a_table_in_pieces_is_absorbed_as_one_in_memory() -> None:
    frame = pd.DataFrame(
        {
            "age": [-5, 20, 40, None, 60, 80] * 5,
            "ward": ["a", "b", "z", "a", None, "b"] * 5,
            "ill": [0, 1, 0, 7, 1, 0] * 5,
        }
    )
    pieces = [frame[:4], frame[4:4], frame[4:17], frame[17:]]
    found = []
    for X in (
        frame[["age", "ward"]],
        Batches(pieces, CLASSES),
        Batches(pieces, CLASSES, cache_bytes=0),
    ):
        model = MedianForestClassifier(1.0, CLASSES, account=an_account())
        model._noise = NoiseSource.insecure_seeded(1)
        model.account = None
        model.bad_rows = "absorb"
        model.fit(X, frame["ill"] if X is not None and not isinstance(X, Batches) else None)
        found.append(model.owner_only_.to_json())
        if isinstance(X, Batches):
            assert X.n_records == 20
            kept = sum(int(encoded.present.sum()) for _, encoded in X)
            assert kept == 20
    assert found[0] == found[1] == found[2]
    counts = json.loads(found[0])
    assert counts["rows without a target"] == 5
    assert counts["rows over the capacity"] == 5
    assert counts["values"]["age"] == {"clipped": 5, "missing": 5}
    assert np.all([counts["values"]["ward"][what] == 5 for what in ("missing", "unlisted")])


def absorbed_training(X: Any, y: Any, domain: Domain = CLASSES) -> Encoded:
    """Return what a fit that absorbs rows learns from."""
    model = DPTreeClassifier(1e-6, domain, max_depth=1, bad_rows="absorb")
    read: list[Encoded] = []
    encode_declared = model._encode_declared
    model._encode_declared = lambda *given: read.append(encode_declared(*given)) or read[-1]  # type: ignore[method-assign, func-returns-value]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(X, y)
    return read[0]


def first_three(X: Any, y: Any, domain: Domain = CLASSES) -> tuple[list[Any], ...]:
    encoded = absorbed_training(X, y, domain)
    return encoded.bins[:3].tolist(), encoded.target[:3].tolist(), encoded.present[:3].tolist()


ROWS: list[Any] = [[31, "a"], [80, "b"], [50, "a"]]
LABELS: list[Any] = [0, 1, 0]
READ = ([[1, 0], [3, 1], [2, 0]], LABELS, [True] * 3)


@pytest.mark.parametrize("kind", [list, tuple, deque, UserList])
@pytest.mark.parametrize("odd", ["x", None, True, [1], b"x"])
def test_a_label_in_any_sequence_changes_no_other(kind: Any, odd: Any) -> None:
    assert first_three([*ROWS, [3, "a"]], kind([*LABELS, odd])) == READ


@pytest.mark.parametrize("kind", [list, tuple, deque, UserList])
@pytest.mark.parametrize("odd", [["x", "a"], ["x"], [1, "a", 2], None, 7])
def test_a_row_in_any_sequence_changes_no_other(kind: Any, odd: Any) -> None:
    assert first_three(kind([*ROWS, odd]), [*LABELS, 0]) == READ


class OddRow(Sequence[Any]):
    """A row that says two cells and gives some other number of them, or none but an error."""

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: Any) -> Any:
        if self.cells < 0:
            raise RuntimeError("no such row")
        if at >= self.cells:
            raise IndexError
        return 5


@pytest.mark.parametrize("cells", [-1, 0, 1, 2, 3, 10])
@pytest.mark.parametrize("place", range(4))
def test_a_row_of_another_class_shifts_no_other(cells: int, place: int) -> None:
    rows, labels = [*ROWS], [*LABELS]
    rows.insert(place, OddRow(cells))
    labels.insert(place, 0)
    encoded = absorbed_training(rows, labels)
    others = [at for at in range(4) if at != place]
    assert encoded.bins[others].tolist() == READ[0]
    assert encoded.target[others].tolist() == LABELS


def test_half_a_character_changes_no_other_row() -> None:
    half = "\ud800"
    texts = np.array([["31", "a"], ["80", "b"], ["50", "a"], ["3", half]])
    assert first_three(texts, [*LABELS, 0]) == first_three(texts[:3], LABELS)
    wards = pd.Series(["a", "b", "a", half], dtype="string[python]")
    frame = pd.DataFrame({"age": [31, 80, 50, 3], "ward": wards})
    assert first_three(frame, [*LABELS, 0]) == READ
    words = CLASSES.model_copy(update={"target": Target(name="ill", classes=("n", "y"))})
    for y in (
        np.array(["n", "y", "n", half]),
        pd.Series(["n", "y", "n", half], dtype="string[python]"),
    ):
        assert first_three([*ROWS, [3, "a"]], y, words) == READ


def test_a_number_beyond_all_floats_warns_of_nothing() -> None:
    large = np.longdouble("1e4000")
    ages = CLASSES.model_copy(update={"attributes": (AGE,)})
    typed = np.array([[31], [80], [50], [large]], dtype=np.longdouble)
    single = ([[1], [3], [2]], LABELS, [True] * 3)
    assert first_three(typed, [*LABELS, 0], ages) == single
    assert first_three(typed.astype(object), [*LABELS, 0], ages) == single
    y = np.array([0, 1, 0, large], dtype=np.longdouble)
    assert first_three(typed, y, ages) == single


@pytest.mark.parametrize("odd", ["time", "text"])
def test_a_value_of_a_union_changes_no_other(odd: str) -> None:
    others = {
        "time": pa.array([0, 0, 0, 2**62]).cast(pa.timestamp("s")),
        "text": pa.Array.from_buffers(
            pa.string(), 4, pa.array([b"", b"", b"", b"\xff"], pa.binary()).buffers()
        ),
    }
    kinds, numbers = pa.array([0, 0, 0, 1], pa.int8()), pa.array([31, 80, 50, 3])
    ages = pa.UnionArray.from_sparse(kinds, [numbers, others[odd]])
    table = pa.table({"age": ages, "ward": ["a", "b", "a", "a"]})
    assert first_three(table, [*LABELS, 0]) == READ
