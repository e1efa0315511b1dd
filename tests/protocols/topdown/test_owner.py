"""An owner answers what its plan allows, once; a hostile coordinator gets nothing more."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.topdown import owner as topdown_owner
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.owner import Owner, charge
from hedgerow.protocols.topdown.plan import TopDownPlan, plan_topdown
from hedgerow.protocols.topdown.wire import Answer, Ask
from hedgerow.tables import Encoded
from hedgerow.trees.counts.leaves import LeafCounts
from tests.protocols.topdown.topdown_cases import METHODS, domain, owners, parts, plan, run, table


def _owner(made: TopDownPlan, **more: object) -> Owner:
    source = _Watched.insecure_seeded(1)
    return Owner(table(), made, name="a", source=source, **more)  # type: ignore[arg-type]


def _root(made: TopDownPlan) -> Ask:
    return Ask(made.digest, 0, "nodes", (), (0,))


class _Watched(NoiseSource):
    """Counts what is drawn."""

    drawn = 0

    def bytes(self, n: int) -> np.ndarray:
        self.drawn += n
        return super().bytes(n)


def _refused(owner: Owner, ask: Ask | bytes, code: Code) -> None:
    before, drawn = owner.state(), owner.source.drawn  # type: ignore[attr-defined]
    with pytest.raises(HedgerowError) as caught:
        owner.answer(ask if isinstance(ask, bytes) else ask.to_bytes())
    assert caught.value.code is code
    assert owner.state() == before
    assert owner.source.drawn == drawn  # type: ignore[attr-defined]


def test_the_worst_case_is_charged_before_the_first_answer() -> None:
    for method in METHODS:
        made = plan(method, epsilon=1.5)
        ledger = Ledger(domain=domain())
        Owner(table(), made, name="a", source=NoiseSource.system(), ledger=ledger)
        total = ledger.total("public")
        assert total.epsilon == pytest.approx(1.5, rel=1e-9)
        assert total.epsilon <= 1.5
        assert total.delta < 2.0**-60
        assert ledger.total("coordinator").epsilon == total.epsilon


def test_owners_of_different_people_pay_once_together() -> None:
    made = plan("local-rnm", epsilon=1.0)
    ledger = Ledger(domain=domain())
    charge(made, ledger, NoiseSource.system(), joint=True)
    assert ledger.total("public").epsilon == pytest.approx(1.0)


def test_seeded_noise_and_none_are_marked() -> None:
    for made in (plan("noisy-counts"), plan("noisy-counts", epsilon=None)):
        ledger = Ledger(domain=domain())
        charge(made, ledger, NoiseSource.insecure_seeded(0))
        assert ledger.not_private


def test_a_domain_from_the_data_is_refused_and_nothing_charged() -> None:
    read = domain().model_copy(update={"provenance": "read from data"})
    made = plan_topdown(read, method="noisy-counts", max_depth=2)
    ledger = Ledger(domain=None)
    with pytest.raises(HedgerowError) as caught:
        charge(made, ledger, NoiseSource.system())
    assert caught.value.code is Code.DOMAIN_READ_FROM_DATA
    assert not ledger.releases


def test_a_table_of_another_domain_or_too_many_rows_is_refused_before_any_charge() -> None:
    made = plan("noisy-counts")
    ledger = Ledger(domain=domain())
    other = table(classes=3)
    for bad, code in ((other, Code.BAD_DOMAIN), (table(6000), Code.CAPACITY_EXCEEDED)):
        with pytest.raises(HedgerowError) as caught:
            Owner(bad, made, name="a", source=NoiseSource.system(), ledger=ledger)
        assert caught.value.code is code
    assert not ledger.releases


def test_the_same_question_gets_the_same_bytes_and_another_one_is_refused() -> None:
    made = plan("noisy-counts")
    owner = _owner(made)
    first = owner.answer(_root(made).to_bytes())
    assert owner.answer(_root(made).to_bytes()) == first
    again = Ask(made.digest, 0, "nodes", ((0, 1),), (1, 2))
    _refused(owner, again, Code.ASKED_TWICE)
    _refused(owner, Ask(made.digest, 1, "nodes", (), (0,)), Code.BAD_ASK)
    _refused(owner, Ask(made.digest, 2, "nodes", ((0, 1),), (1, 2)), Code.BAD_ASK)
    _refused(owner, Ask("0" * 64, 1, "nodes", ((0, 1),), (1, 2)), Code.BAD_ASK)


def test_nodes_that_do_not_exist_or_overlap_are_refused() -> None:
    made = plan("noisy-counts")
    owner = _owner(made)
    _refused(owner, Ask(made.digest, 0, "leaves", (), (0,)), Code.BAD_ASK)
    owner.answer(_root(made).to_bytes())
    for ask, code in (
        (Ask(made.digest, 1, "nodes", ((5, 0),), (1, 2)), Code.BAD_ASK),
        (Ask(made.digest, 1, "nodes", ((0, 999),), (1, 2)), Code.BAD_ASK),
        (Ask(made.digest, 1, "nodes", ((0, 1), (0, 2)), (1, 2, 3, 4)), Code.ASKED_TWICE),
        (Ask(made.digest, 1, "nodes", ((0, 1),), (1,)), Code.BAD_ASK),
        (Ask(made.digest, 1, "nodes", (), ()), Code.BAD_ASK),
        (Ask(made.digest, 1, "nodes", ((0, 1),), (1, 1)), Code.BAD_ASK),
        (Ask(made.digest, 1, "leaves", ((0, 1),), (0, 1)), Code.BAD_ASK),
        (Ask(made.digest, 1, "leaves", ((0, 1),), (1, 1)), Code.BAD_ASK),
        (Ask(made.digest, 1, "leaves", ((0, 1),), ()), Code.BAD_ASK),
        (Ask(made.digest, 1, "leaves", ((0, 1),), (9,)), Code.BAD_ASK),
        (Ask(made.digest, 1, "recount", (), (0,), ((1,),)), Code.BAD_ASK),
        (Ask(made.digest, 1, "nodes", ((0, 1),), (1, 2), ((1,), (2,))), Code.BAD_ASK),
        (
            Ask(made.digest, 1, "nodes", ((0, 1),), (1, 2), (), {"x": np.zeros(1, np.int64)}),
            Code.BAD_ASK,
        ),
    ):
        _refused(owner, ask, code)
    owner.answer(Ask(made.digest, 1, "nodes", ((0, 1),), (1, 2)).to_bytes())
    # The root was split; a second, different split of it would give new nodes for the same people.
    _refused(owner, Ask(made.digest, 2, "nodes", ((0, 3),), (3, 4)), Code.ASKED_TWICE)
    owner.answer(Ask(made.digest, 2, "leaves", (), (1, 2)).to_bytes())
    _refused(owner, Ask(made.digest, 3, "leaves", (), (0,)), Code.ASKED_TWICE)


def test_a_failure_half_way_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("noisy-counts")
    owner, twin = _owner(made), _owner(made)
    for one in (owner, twin):
        one.answer(_root(made).to_bytes())
    ask = Ask(made.digest, 1, "nodes", ((0, 1),), (1, 2)).to_bytes()
    before = owner.state()
    with monkeypatch.context() as patched:
        patched.setattr(topdown_owner, "weigh_and_split", _fails)
        with pytest.raises(MemoryError):
            owner.answer(ask)
    assert owner.state() == before
    assert owner.answer(ask) == twin.answer(ask)


def _fails(*_: object) -> None:
    raise MemoryError


def test_one_table_serves_two_owners_of_different_trees() -> None:
    made = plan("noisy-counts", epsilon=None)
    counts = LeafCounts(table(), made.candidates)
    answers = []
    for choice in (1, 9):
        owner = Owner(counts, made, name="a", source=NoiseSource.insecure_seeded(1))
        owner.answer(_root(made).to_bytes())
        ask = Ask(made.digest, 1, "nodes", ((0, choice),), (1, 2))
        answers.append(Answer.from_bytes(owner.answer(ask.to_bytes())).arrays["weight"])
    fresh = LeafCounts(table(), made.candidates).after([0], [9])
    assert answers[1].tolist() == fresh.class_counts([1, 2]).sum(axis=1).tolist()


def test_splits_below_the_deepest_level_are_refused() -> None:
    made = plan("noisy-counts", max_depth=1)
    owner = _owner(made)
    owner.answer(_root(made).to_bytes())
    # Children of the deepest splits exist, but are only labelled.
    _refused(owner, Ask(made.digest, 1, "nodes", ((0, 1),), (1, 2)), Code.BAD_ASK)
    _refused(owner, Ask(made.digest, 1, "nodes", ((0, 1),), ()), Code.BAD_ASK)
    _refused(owner, Ask(made.digest, 1, "leaves", ((0, 1), (1, 2)), (3, 4, 2)), Code.BAD_ASK)
    owner.answer(Ask(made.digest, 1, "leaves", ((0, 1),), (1, 2)).to_bytes())


def test_more_splits_than_growth_can_look_at_are_refused() -> None:
    made = plan("noisy-counts", n_splits=1, max_depth=4)
    owner = _owner(made)
    owner.answer(_root(made).to_bytes())
    owner.answer(Ask(made.digest, 1, "nodes", ((0, 1),), (1, 2)).to_bytes())
    owner.answer(Ask(made.digest, 2, "nodes", ((1, 9), (2, 9)), (3, 4, 5, 6)).to_bytes())
    _refused(owner, Ask(made.digest, 3, "nodes", ((3, 2),), (7, 8)), Code.BAD_ASK)


def test_counts_of_the_best_splits_follow_the_choices_once() -> None:
    made = plan("local-rnm")
    owner = _owner(made)
    owner.answer(_root(made).to_bytes())
    many = tuple(range(made.n_owners + 1))
    for among in ((), ((),), ((2, 1),), ((1, 1),), (many,), ((999,),), ((0,), (1,))):
        _refused(owner, Ask(made.digest, 1, "recount", (), (0,), among), Code.BAD_ASK)
    _refused(owner, Ask(made.digest, 1, "nodes", ((0, 1),), (1, 2)), Code.BAD_ASK)
    owner.answer(Ask(made.digest, 1, "recount", (), (0,), ((3, 5),)).to_bytes())
    _refused(owner, Ask(made.digest, 2, "recount", (), (0,), ((4,),)), Code.BAD_ASK)


@pytest.mark.parametrize(
    "message", [b"", b"{}", b"[]\n", b"null\n", b"\xff\n", b"{" * 9000 + b"\n"]
)
def test_questions_that_are_none_are_refused(message: bytes) -> None:
    _refused(_owner(plan("noisy-counts")), message, Code.BAD_ASK)


def test_a_question_with_fields_of_another_type_is_refused() -> None:
    made = plan("noisy-counts")
    good = _root(made).to_bytes()
    for old, new in (
        (b'"round":0', b'"round":-1'),
        (b'"round":0', b'"round":true'),
        (b'"nodes":[0]', b'"nodes":[0.5]'),
        (b'"nodes":[0]', b'"nodes":{}'),
        (b'"expand":[]', b'"expand":[[1]]'),
        (b'"version":1', b'"version":2'),
        (b'"phase":"nodes"', b'"phase":7'),
    ):
        assert old in good
        _refused(_owner(made), good.replace(old, new), Code.BAD_ASK)


def test_states_that_are_damaged_or_of_others_are_refused() -> None:
    made = plan("noisy-counts")
    parties = owners(made)
    coordinator = Coordinator(made, tuple(parties))
    run(coordinator, parties, rounds=2)
    state = parties["owner 0"].state()
    mine: Encoded = parts(table(), 3)[0]
    for name, plan_, data in (
        ("owner 1", made, state),
        ("owner 0", plan("noisy-counts", epsilon=9.0), state),
        ("owner 0", made, state[:-3]),
        ("owner 0", made, b"{}"),
        ("owner 0", made, state.replace(b'"answer":"', b'"answer":"*')),
        ("owner 0", made, state.replace(b'"round":1', b'"round":"x"')),
        ("owner 0", made, state.replace(b'"splits":[', b'"splits":[[77,1],')),
        ("owner 0", made, state.replace(b'"splits":[', b'"splits":[[0],')),
    ):
        with pytest.raises(HedgerowError) as caught:
            Owner.resume(mine, plan_, data, name=name, source=NoiseSource.system())
        assert caught.value.code is Code.BAD_ASK
