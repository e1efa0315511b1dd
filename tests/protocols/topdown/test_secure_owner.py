from dataclasses import replace

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.topdown.parts import SERVER_NAMES
from hedgerow.protocols.topdown.secure_owner import SecureOwner
from hedgerow.protocols.topdown.wire import Answer, Ask
from tests.protocols.topdown.secure_counts import PUBLIC_KEYS, owner_of, plan_of, table_of

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
        read = Answer.from_bytes(answer)
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


def test_the_worst_case_is_charged_before_the_first_answer() -> None:
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


def test_keys_may_come_later_and_before_the_first_answer() -> None:
    owner = SecureOwner(
        table_of(0), PLAN, name="amsterdam", source=NoiseSource.system(), server_keys=None
    )
    state = owner.state()
    refused(lambda: owner.answer(ROOT.to_bytes()), Code.SEALED_REFUSED)
    assert owner.state() == state
    refused(lambda: owner.take_keys(PUBLIC_KEYS[:2]), Code.SEALED_REFUSED)
    owner.take_keys(PUBLIC_KEYS)
    assert set(Answer.from_bytes(owner.answer(ROOT.to_bytes())).arrays) == set(SERVER_NAMES)
