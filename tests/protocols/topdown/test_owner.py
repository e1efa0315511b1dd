"""An owner answers what it agreed to, once, and charges it first."""

from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.topdown import owner as topdown_owner
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.owner import Owner, SecureOwner, charge_plan
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.wire import SERVER_NAMES, Ask, TopDownAnswer
from hedgerow.tables import Encoded
from hedgerow.trees.counts.leaves import LeafCounts
from tests.protocols.topdown.secure_counts import PUBLIC_KEYS, owner_of, plan_of, table_of
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
    charge_plan(made, ledger, NoiseSource.system(), joint=True)
    assert ledger.total("public").epsilon == pytest.approx(1.0)


def test_seeded_noise_and_none_are_marked() -> None:
    for made in (plan("noisy-counts"), plan("noisy-counts", epsilon=None)):
        ledger = Ledger(domain=domain())
        charge_plan(made, ledger, NoiseSource.insecure_seeded(0))
        assert ledger.not_private


def test_a_domain_from_the_data_is_refused_and_nothing_charged() -> None:
    read = domain().model_copy(update={"provenance": "read from data"})
    made = TopDownOptions(epsilon=1.0, method="noisy-counts", max_depth=2).plan(read)
    ledger = Ledger(domain=None)
    with pytest.raises(HedgerowError) as caught:
        charge_plan(made, ledger, NoiseSource.system())
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
        answers.append(TopDownAnswer.from_bytes(owner.answer(ask.to_bytes())).arrays["weight"])
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


PLAN = plan_of()
ROOT = Ask(PLAN.digest, 0, "nodes", (), (0,))
NEXT = Ask(PLAN.digest, 2, "nodes", ((0, 3),), (1, 2))
LEAVES = Ask(PLAN.digest, 4, "leaves", (), (1, 2))


def refused(call, code: Code) -> None:
    with pytest.raises(HedgerowError) as error:
        call()
    assert error.value.code is code


def test_a_question_is_answered_once_and_repeated_alike() -> None:
    owner = owner_of(PLAN, 3, "amsterdam")
    for ask in (ROOT, NEXT, LEAVES):
        answer = owner.answer(ask.to_bytes())
        assert owner.answer(ask.to_bytes()) == answer
        read = TopDownAnswer.from_bytes(answer)
        assert (read.round, read.nodes) == (ask.round, ask.nodes)
        assert set(read.arrays) == set(SERVER_NAMES)


def test_questions_out_of_order_are_refused_and_change_nothing() -> None:
    owner = owner_of(PLAN, 3, "amsterdam")
    refused(lambda: owner.answer(NEXT.to_bytes()), Code.BAD_ASK)
    first = owner.answer(ROOT.to_bytes())
    for number in (1, 3, 4):
        refused(lambda n=number: owner.answer(replace(NEXT, round=n).to_bytes()), Code.BAD_ASK)
    refused(lambda: owner.answer(replace(ROOT, phase="leaves").to_bytes()), Code.ASKED_TWICE)
    refused(lambda: owner.answer(replace(NEXT, phase="servers").to_bytes()), Code.BAD_ASK)
    refused(lambda: owner.answer(replace(NEXT, nodes=(0,)).to_bytes()), Code.BAD_ASK)
    assert owner.answer(ROOT.to_bytes()) == first
    owner.answer(NEXT.to_bytes())
    again = replace(NEXT, round=4, nodes=(3, 4))
    refused(lambda: owner.answer(again.to_bytes()), Code.ASKED_TWICE)
    owner.answer(LEAVES.to_bytes())
    refused(lambda: owner.answer(replace(LEAVES, round=6).to_bytes()), Code.ASKED_TWICE)


def test_it_goes_on_after_a_restart_and_repeats_its_last_answer() -> None:
    owner = owner_of(PLAN, 3, "amsterdam")
    owner.answer(ROOT.to_bytes())
    answer = owner.answer(NEXT.to_bytes())
    known = {"name": "amsterdam", "source": NoiseSource.system(), "server_keys": PUBLIC_KEYS}
    again = SecureOwner.resume(table_of(3), PLAN, owner.state(), **known)
    assert again.answer(NEXT.to_bytes()) == answer
    refused(lambda: again.answer(replace(NEXT, round=2).to_bytes()[:-1]), Code.BAD_ASK)
    assert len(again.answer(LEAVES.to_bytes())) == len(owner.answer(LEAVES.to_bytes()))


def test_shares_are_charged_before_the_first_answer() -> None:
    ledger = Ledger()
    source = NoiseSource.system()
    SecureOwner(table_of(0), PLAN, name="a", source=source, ledger=ledger, server_keys=PUBLIC_KEYS)
    assert ledger.total().epsilon == pytest.approx(4.0)
    assert 0 < ledger.total().delta < 2**-50


@pytest.mark.parametrize("keys", [(), PUBLIC_KEYS[:2], [PUBLIC_KEYS[0]] * 3, [b"x", b"y", b"z"]])
def test_three_different_keys_are_needed(keys: list[bytes]) -> None:
    ledger = Ledger()
    refused(
        lambda: SecureOwner(
            table_of(0),
            PLAN,
            name="a",
            source=NoiseSource.system(),
            ledger=ledger,
            server_keys=keys,
        ),
        Code.SEALED_REFUSED,
    )
    assert not ledger.entries
