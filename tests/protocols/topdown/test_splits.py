"""DP-TopDown on secret counts, with its coordinator."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.splits import SecureCounts
from hedgerow.protocols.topdown.wire import SERVER_NAMES, TopDownAnswer
from tests.protocols.topdown.secure_counts import (
    answer_all,
    asked,
    grow_secure,
    joined,
    owners_of,
    plan_of,
    servers_of,
    table_of,
)
from tests.protocols.topdown.topdown_cases import grow_topdown

NAMES = ("amsterdam", "berlin", "cordoba")


def refused(call, code: Code) -> HedgerowError:
    with pytest.raises(HedgerowError) as error:
        call()
    assert error.value.code is code
    return error.value


@pytest.mark.parametrize("criterion", ["gini", "max"])
def test_without_noise_it_is_the_tree_of_one_machine_with_all_records(criterion: str) -> None:
    options = {"epsilon": None, "criterion": criterion, "n_splits": 6, "max_depth": 4}
    plan = plan_of(n_owners=3, **options)
    found = grow_secure(plan, owners_of(plan), servers_of(plan))
    alone = TopDownOptions(method="single-machine", **options).plan(plan.domain)
    table = joined({name: table_of(i) for i, name in enumerate(NAMES)})
    owner = Owner(table, alone, name="one", source=NoiseSource.insecure_seeded(0))
    expected, _ = grow_topdown(alone, {"one": owner})
    assert found.to_dict() == expected.to_dict()
    assert found.n_nodes > 5


def test_the_noise_is_that_of_one_curator_and_not_of_every_owner(chi_square) -> None:
    """The same mechanisms as with a single machine, whose laws the servers' numbers have."""
    plan = plan_of(n_owners=3)
    alone = TopDownOptions(method="single-machine", epsilon=4.0, max_depth=3).plan(plan.domain)
    for depth in (1, 2, 3):
        for number in ("weigh", "choose", "value"):
            ours, theirs = (getattr(each, number)(depth) for each in (plan, alone))
            assert (ours.epsilon, ours.sensitivity) == (theirs.epsilon, theirs.sensitivity)
    weights = []
    _, asks = asked(plan, owners_of(plan, n=20))
    for seed in range(60):
        answer = servers_of(plan, seed=seed, computed="clear").answers(asks)["server 0"]
        weights.append(int(TopDownAnswer.from_bytes(answer).arrays["weight"][0]) - 60)
    mechanism = plan.weigh(1)
    reach = np.arange(-2, 3)
    law = mechanism.law(reach)
    counts = [weights.count(int(k)) for k in reach]
    counts.append(60 - sum(counts))
    assert chi_square(counts, np.append(law, 1 - law.sum())) > 1e-4


def test_an_owner_that_drops_out_is_done_without() -> None:
    plan = plan_of(n_owners=3, epsilon=None, n_splits=2)
    owners, servers = owners_of(plan), servers_of(plan)
    coordinator = Coordinator(plan, NAMES)
    for name in NAMES[:2]:
        coordinator.hear(name, owners[name].answer(coordinator.asks()[name]))
    assert set(coordinator.asks()) == {"cordoba"}
    coordinator.drop("cordoba")
    assert set(coordinator.asks()) == set(SERVER_NAMES)
    two = plan_of(n_owners=2, epsilon=None, n_splits=2)
    found = grow_secure(plan, owners, servers, coordinator)
    expected = grow_secure(two, owners_of(two), servers_of(two))
    assert found.to_dict() == expected.to_dict()


def test_a_server_cannot_be_done_without_and_all_are_asked_again() -> None:
    plan = plan_of(n_splits=3, epsilon=8.0)
    owners, servers = owners_of(plan), servers_of(plan)
    coordinator, asks = asked(plan, owners)
    answers = servers.answers(asks)
    coordinator.hear("server 0", answers["server 0"])
    refused(lambda: coordinator.drop("server 2"), Code.TOO_FEW_OWNERS)
    assert coordinator.asks() == asks
    found = grow_secure(plan, owners, servers, coordinator)
    again = servers_of(plan)
    assert found.to_dict() == grow_secure(plan, owners_of(plan), again).to_dict()


def test_servers_that_say_different_things_are_found_out() -> None:
    plan = plan_of()
    owners, servers = owners_of(plan), servers_of(plan)
    coordinator, asks = asked(plan, owners)
    answers = servers.answers(asks)
    other = TopDownAnswer.from_bytes(answers["server 1"])
    arrays = {**other.arrays, "weight": other.arrays["weight"] + 1}
    for name in ("server 0", "server 2"):
        coordinator.hear(name, answers[name])
    lie = TopDownAnswer(other.plan, other.round, other.nodes, arrays).to_bytes()
    error = refused(lambda: coordinator.hear("server 1", lie), Code.BAD_ANSWER)
    assert "server 1" in error.found


def test_answers_that_cannot_be_are_refused_and_change_nothing() -> None:
    plan = plan_of()
    owners, servers = owners_of(plan), servers_of(plan)
    coordinator = Coordinator(plan, list(owners))
    ask = coordinator.asks()["berlin"]
    good = TopDownAnswer.from_bytes(owners["berlin"].answer(ask))
    short = {**good.arrays, "server 1": good.arrays["server 1"][:-1]}
    bad = TopDownAnswer(good.plan, good.round, good.nodes, short).to_bytes()
    refused(lambda: coordinator.hear("berlin", bad), Code.BAD_ANSWER)
    assert coordinator.asks()["berlin"] == ask
    refused(lambda: coordinator.hear("server 0", good.to_bytes()), Code.UNEXPECTED_ANSWER)
    answer_all(coordinator, owners, servers)
    told = TopDownAnswer.from_bytes(servers.answers(coordinator.asks())["server 0"])
    for name, value in (("choice", 8), ("choice", -1), ("used", 3)):
        wrong = {**told.arrays, name: np.full_like(told.arrays[name], value)}
        message = TopDownAnswer(told.plan, told.round, told.nodes, wrong).to_bytes()
        refused(lambda m=message: coordinator.hear("server 0", m), Code.BAD_ANSWER)


def test_who_was_left_out_is_told() -> None:
    plan = plan_of(epsilon=None, n_splits=1)
    owners, servers = owners_of(plan), servers_of(plan)
    coordinator = Coordinator(plan, list(owners))
    spoilt = TopDownAnswer.from_bytes(owners["berlin"].answer(coordinator.asks()["berlin"]))
    part = spoilt.arrays["server 2"].copy()
    part[-1] ^= 1
    arrays = {**spoilt.arrays, "server 2": part}
    message = TopDownAnswer(spoilt.plan, spoilt.round, spoilt.nodes, arrays).to_bytes()
    coordinator.hear("berlin", message)
    coordinator.hear("amsterdam", owners["amsterdam"].answer(coordinator.asks()["amsterdam"]))
    grow_secure(plan, owners, servers, coordinator)
    split = coordinator.split
    assert isinstance(split, SecureCounts)
    assert split.left_out == [(1, "berlin", "H704")]


def test_a_server_is_handed_its_own_parts_only() -> None:
    plan = plan_of()
    owners = owners_of(plan)
    coordinator = Coordinator(plan, list(owners))
    answers = {name: owners[name].answer(ask) for name, ask in coordinator.asks().items()}
    for name, answer in answers.items():
        coordinator.hear(name, answer)
    for server, ask in coordinator.asks().items():
        for answer in answers.values():
            for other, part in TopDownAnswer.from_bytes(answer).arrays.items():
                assert (part.tobytes() in ask) == (other == server)
