"""Paper 000's protocols on one split of a data set, scored on its test rows.

The programs are those of `hedgerow.protocols`, level loop, noise and answers alike; the engine is
`ClearEngine`, which runs them in one process on plain arrays under the same laws. With
``servers=True`` the same programs run on the shares of three simulated servers. Noise is seeded, so
that figures can be drawn again; ledgers of real runs refuse that.

Where a structure has no noise, it is grown once and its leaves are drawn anew for every epsilon.
Answers follow from a trained model without further noise, unless trees vote: with the clear engine
they are looked up in it, and every lookup is held against the answering protocol on some rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource, Opening
from hedgerow.protocols.growers.leaves import LEAF_COUNTS
from hedgerow.protocols.hidden.answers import HIDDEN_TREE, distribution, winner
from hedgerow.protocols.hidden.id3 import GrownTrees, grow
from hedgerow.protocols.hidden.model import SecretForest, forest
from hedgerow.protocols.hidden.open_id3 import train_open
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.questions import join_answers, open_answers, question_of
from hedgerow.protocols.hidden.training import (
    frontier,
    leaf_update_of,
    leaf_values,
    score_of,
    splits_of,
)
from hedgerow.protocols.sharing.integrate import keyed
from hedgerow.protocols.sharing.queries import deal_queries, held_queries
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads
from hedgerow.protocols.sharing.uploaded import deal_uploads, held_table
from hedgerow.protocols.votes import votes
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import SERVERS, ReplicatedEngine
from hedgerow.secure.replicated.outside import open_halves
from hedgerow.secure.secret import Engine, Secret, concatenate
from hedgerow.tables import Encoded, encode, pad
from reproduce.data import TEST_SHARE, DataSet, split

_CHECKED = 20
"""Test rows on which a lookup is compared with the answering protocol."""


class Score(NamedTuple):
    """One run on the test rows.

    `auc`: area under the ROC curve of the answered classes, as in the paper, whose prediction
    protocol answers with a class. `auc_counts`: the same of noisy counts, where they may be shown.
    `proven`: epsilon that holds against whoever gets the answers or the tree, by the ledger, as if
    noise had not been seeded.
    """

    accuracy: float
    auc: float
    auc_counts: float | None
    proven: float


@dataclass(frozen=True)
class Part:
    """One 80-20 split of a data set.

    `capacity`: public: the training share of the capacity of the whole table.
    """

    train: Encoded
    test: Encoded
    capacity: int
    seed: int

    @classmethod
    def of(cls, data: DataSet, seed: int) -> Part:
        """Split and encode."""
        train, test = (data.rows(rows) for rows in split(len(data.target), seed))
        assert data.domain.capacity is not None
        return cls(
            encode(train.frame, train.domain, train.target),
            encode(test.frame, test.domain, test.target),
            int(np.ceil((1 - TEST_SHARE) * data.domain.capacity)),
            seed,
        )

    @cached_property
    def truth(self) -> NDArray[np.int64]:
        """Classes of the test rows."""
        assert self.test.target is not None
        return self.test.target.astype(np.int64)

    def slots(self, n: int) -> Encoded:
        """Place the training rows among n slots; the same places for the same split."""
        rng = np.random.default_rng(1_000 + self.seed)
        return pad(self.train, n, entropy=rng.bytes)

    def score(
        self, answers: NDArray[Any], proven: float, probability: NDArray[Any] | None = None
    ) -> Score:
        """Compare answers, and class probabilities if there are any, with the test rows."""
        return Score(
            float(np.mean(answers == self.truth)),
            float(roc_auc_score(self.truth, answers)),
            None if probability is None else float(roc_auc_score(self.truth, probability[:, 1])),
            proven,
        )


def engine_for(openings: list[Opening], ledger: Ledger, seed: int, *, servers: bool) -> Engine:
    """Return the engine that runs a program: the clear one, or three simulated servers."""
    leakage = Leakage(openings, ledger=ledger)
    if servers:
        key = seed.to_bytes(16, "little")
        return ReplicatedEngine(Simulator(SERVERS), leakage, insecure_seed=key)
    return ClearEngine(leakage, NoiseSource.insecure_seeded(seed))


def shared(engine: Engine, plan: HiddenPlan, part: Part) -> SecretTable:
    """Share the training rows."""
    uploads = horizontal_uploads(plan.layout, [plan.n_slots])
    tables = {uploads[0].party: part.slots(plan.n_slots)}
    # What is seeded is the same again, down to the shares.
    held = deal_uploads(plan.layout, uploads, tables, keyed(bytes(KEY_BYTES)))
    return held_table(engine, plan.layout, plan.ring, held)


@dataclass(frozen=True)
class Structure:
    """Trees without their leaves; `leaves` and `voted` finish them as often as wanted.

    `charged`: the ledger after growing, as JSON.
    """

    grown: GrownTrees
    part: Part
    charged: str
    servers: bool = False

    @classmethod
    def of(cls, plan: HiddenPlan, part: Part, seed: int, *, servers: bool = False) -> Structure:
        """Grow the trees of a plan (`hedgerow.protocols.hidden.id3.grow`)."""
        ledger = Ledger(domain=plan.domain)
        engine = engine_for(plan.openings(), ledger, seed, servers=servers)
        rows = frontier(shared(engine, plan, part), plan)
        grown = grow(rows, plan.depth, score_of(plan), splits_of(plan, ledger))
        return cls(grown, part, ledger.to_json(), servers)

    def leaves(self, draws: Sequence[tuple[HiddenPlan, int]]) -> list[Score]:
        """Draw the leaves once per plan and seed, and score the answers.

        All draws are asked together: one walk through the structure finds their leaves at once.
        """
        models, ledgers = [], []
        for plan, seed in draws:
            ledgers.append(Ledger.from_json(self.charged))
            models.append(self._model(plan, ledgers[-1], seed))
        found = self._walked(models)
        scores = []
        for (plan, seed), ledger, values in zip(draws, ledgers, found, strict=True):
            answers = self._opened(plan, "class", ledger, values, seed)
            probability = None
            if plan.shows_counts:
                counts = self._opened(plan, "distribution", ledger, values, seed)
                probability = distribution(counts)
            proven = ledger.formal_total("analyst").epsilon
            scores.append(self.part.score(answers, proven, probability))
        return scores

    def voted(self, plan: HiddenPlan, seed: int) -> Score:
        """Answer by noisy votes (`hedgerow.protocols.votes.votes`) and score the answers."""
        ledger, test = Ledger.from_json(self.charged), self.part.test
        plan.charge(ledger)
        model = self._model(plan, ledger, seed)
        openings = votes.vote_openings(test.n_slots)
        engine = engine_for(openings, ledger, seed + 1, servers=self.servers)
        trees = _moved(model, engine)
        votes.spend_answers(ledger, test.n_slots)
        (halves,) = open_answers(
            HIDDEN_TREE, trees, plan, [question_of(plan, test)], "class", ledger
        )
        return self.part.score(join_answers(halves), ledger.formal_total("analyst").epsilon)

    def _model(self, plan: HiddenPlan, ledger: Ledger, seed: int) -> SecretForest:
        """Label the leaves with noise of a seed, as `train_hidden` does."""
        for release in plan.releases():
            if release.mechanism == "exact":
                ledger.charge(release)
        engine = engine_for([], ledger, seed, servers=self.servers)
        moved = replace(
            self.grown,
            choices=[_at(engine, x) for x in self.grown.choices],
            totals=[_at(engine, x) for x in self.grown.totals],
            leaves=_at(engine, self.grown.leaves),
        )
        leaves = leaf_update_of(plan, ledger)(moved, plan.tree_rows)
        return forest(plan.layout, moved.choices, leaf_values(leaves, plan))

    def _walked(self, models: Sequence[SecretForest]) -> list[Secret]:
        """Walk the test rows through models of one structure, as many as memory allows at a time.

        Models are joined where their rings are equal; returns leaf values, each (rows, trees, v).
        """
        by_ring: dict[int, list[int]] = {}
        for index, model in enumerate(models):
            by_ring.setdefault(model.ring.bits, []).append(index)
        found: dict[int, Secret] = {}
        for members in by_ring.values():
            engine = engine_for([], Ledger(), 1, servers=self.servers)
            first = _moved(models[members[0]], engine)
            values = [_at(engine, models[index].values) for index in members]
            joined = replace(first, values=concatenate(values, axis=-1))
            ends = np.cumsum([value.shape[-1] for value in values])
            reached = self._rows_walked(joined, engine)
            for index, value, end in zip(members, values, ends, strict=True):
                found[index] = reached[..., int(end) - value.shape[-1] : int(end)]
        return [found[index] for index in range(len(models))]

    def _rows_walked(self, model: SecretForest, engine: Engine) -> Secret:
        """Return the leaf values of the test rows, (rows, trees, v)."""
        test, layout = self.part.test, model.layout
        some = test if self.servers else test.rows(np.arange(min(_CHECKED, test.n_slots)))
        parts = deal_queries(layout, some)
        answered = predict(model, held_queries(engine, layout, model.ring, parts, some.n_slots))
        if self.servers:
            return answered
        found = lookup(model, test.bins)
        if not np.array_equal(found[: some.n_slots], answered.data):
            raise AssertionError("a lookup differs from the answering protocol")
        return Secret(engine, model.ring, found)

    def _opened(
        self, plan: HiddenPlan, what: str, ledger: Ledger, found: Secret, seed: int
    ) -> NDArray[Any]:
        """Open what was asked for to the analyst, as `open_answers` does."""
        openings = HIDDEN_TREE.answer_openings(plan, found.shape[0], what)
        engine = engine_for(openings, ledger, seed + 2, servers=self.servers)
        here = _at(engine, found)
        if plan.n_trees > 1:
            votes = here.sum(axis=1)
            result = votes if what == "distribution" else winner(votes, plan.n_trees)
        else:
            result = here[:, 0, 1:] if what == "distribution" else here[:, 0, 0]
        return join_answers(open_halves(engine, result, openings[0].name, "analyst"))


def lookup(model: SecretForest, bins: NDArray[Any]) -> NDArray[Any]:
    """Find the leaf values of rows in a model that the clear engine holds, (rows, trees, v)."""
    layout, rows = model.layout, np.arange(len(bins))[:, None]
    trees = np.arange(model.n_trees)[None]
    chosen = model.splits.data.argmax(axis=-1)
    node = np.zeros((len(bins), model.n_trees), dtype=np.int64)
    for level in range(model.depth):
        candidate = chosen[:, model.level(level)][trees, node]
        feature = layout.candidates.feature[candidate]
        bin_ = bins[rows, feature].astype(np.int64)
        if layout.branching == "binary":
            child = 1 - layout.left[candidate, layout.first_column[feature] + bin_].astype(np.int64)
        else:
            child = bin_
        node = node * layout.arity + child
    found: NDArray[Any] = model.values.data[trees, node]
    return found


def hidden(plan: HiddenPlan, part: Part, seed: int, *, servers: bool = False) -> Score:
    """Grow hidden trees with noise in their splits, label, ask and score them."""
    return Structure.of(plan, part, seed, servers=servers).leaves([(plan, seed + 1)])[0]


def opened(plan: HiddenPlan, part: Part, seed: int, *, servers: bool = False) -> Score:
    """Train a tree that is opened (`hedgerow.protocols.hidden.open_id3`) and score it."""
    plan = plan.opened()
    ledger = Ledger(domain=plan.domain)
    engine = engine_for(plan.openings(), ledger, seed, servers=servers)
    tree = train_open(shared(engine, plan, part), plan, ledger)
    bins, proven = part.test.bins, ledger.formal_total("public").epsilon
    has_counts = plan.leaf_reason == LEAF_COUNTS
    probability = tree.distribution(bins) if has_counts else None
    return part.score(tree.predict_class(bins).astype(np.int64), proven, probability)


def _at(engine: Engine, x: Secret) -> Secret:
    """Return the same secret in another run of the same servers."""
    return Secret(engine, x.ring, x.data)


def _moved(model: SecretForest, engine: Engine) -> SecretForest:
    return replace(model, splits=_at(engine, model.splits), values=_at(engine, model.values))
