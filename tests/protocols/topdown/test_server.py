"""Servers: which questions they answer, what they keep, and that nothing is drawn twice."""

from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.protocols.topdown.growth import TreeShape
from hedgerow.protocols.topdown.secure_splits import SecureSplits, cost_answer
from hedgerow.protocols.topdown.server import (
    LastQuestion,
    SecureServers,
    check_question,
    common_question,
    read_state,
    write_state,
)
from hedgerow.protocols.topdown.wire import SERVER_NAMES, Ask, TopDownAnswer, seal_parts
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import deal
from tests.protocols.topdown.secure_counts import (
    CAPACITY,
    KEYS,
    PUBLIC_KEYS,
    answer_all,
    asked,
    each_apart,
    meeting,
    owners_of,
    plan_of,
    servers_of,
)
from tests.secure.engines import metered
from tests.secure.replicated.wires import Recorder

PLAN = plan_of()
NOTHING = np.zeros(0, dtype=np.uint8)
OWNERS = {"amsterdam": NOTHING, "berlin": NOTHING}
ROOT = Ask(PLAN.digest, 1, "servers", (), (0,), (), OWNERS)
NEXT = Ask(PLAN.digest, 3, "servers", ((0, 2),), (1, 2), (), OWNERS)
LEAVES = Ask(PLAN.digest, 5, "servers, leaves", (), (1, 2), (), OWNERS)


def after(ask: Ask) -> LastQuestion:
    return LastQuestion(ask, np.zeros(1, dtype=np.uint64), np.zeros(2, dtype=np.int64), b"")


def test_questions_in_order_pass() -> None:
    assert check_question(ROOT, PLAN, [], None).n_nodes == 1
    assert check_question(NEXT, PLAN, [], after(ROOT)).n_nodes == 3
    assert check_question(LEAVES, PLAN, [(0, 2)], after(NEXT)).splits == [(0, 2)]


REFUSED = {
    "another plan": (replace(NEXT, plan="e" * 64), Code.BAD_ASK),
    "a round too late": (replace(NEXT, round=5), Code.BAD_ASK),
    "a round of owners": (replace(NEXT, round=4), Code.BAD_ASK),
    "a round that is over": (replace(NEXT, round=1), Code.ASKED_TWICE),
    "a phase of owners": (replace(NEXT, phase="nodes"), Code.BAD_ASK),
    "candidates": (replace(NEXT, among=((1,), (2,))), Code.BAD_ASK),
    "nobody": (replace(NEXT, arrays={}), Code.BAD_ASK),
    "too many": (replace(NEXT, arrays={**OWNERS, "cordoba": NOTHING}), Code.BAD_ASK),
    "a node that is not there": (replace(NEXT, expand=((4, 2),)), Code.BAD_ASK),
    "a split that is none": (replace(NEXT, expand=((0, 99),)), Code.BAD_ASK),
    "two splits of a node": (replace(NEXT, expand=((0, 2), (0, 3))), Code.ASKED_TWICE),
    "one of two new nodes": (replace(NEXT, nodes=(1,)), Code.BAD_ASK),
    "an old node": (replace(NEXT, expand=(), nodes=(0,)), Code.BAD_ASK),
    "no node": (replace(NEXT, expand=(), nodes=()), Code.BAD_ASK),
    "a leaf below another": (replace(NEXT, phase=LEAVES.phase, nodes=(0, 1)), Code.BAD_ASK),
    "a leaf twice": (replace(NEXT, phase=LEAVES.phase, nodes=(1, 1)), Code.BAD_ASK),
    "a leaf that is not there": (replace(NEXT, phase=LEAVES.phase, nodes=(7,)), Code.BAD_ASK),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_other_questions_are_refused(what: str) -> None:
    ask, code = REFUSED[what]
    with pytest.raises(HedgerowError) as error:
        check_question(ask, PLAN, [], after(ROOT))
    assert error.value.code is code


def test_nothing_comes_before_the_root_or_after_the_leaves() -> None:
    for ask, last, code in (
        (replace(LEAVES, round=1, nodes=(0,)), None, Code.BAD_ASK),
        (replace(NEXT, round=1), None, Code.BAD_ASK),
        (replace(LEAVES, round=7), after(LEAVES), Code.ASKED_TWICE),
    ):
        with pytest.raises(HedgerowError) as error:
            check_question(ask, PLAN, [] if last is None else [(0, 2)], last)
        assert error.value.code is code


def test_of_the_parts_only_their_owners_are_compared() -> None:
    parts = {name: np.ones(9, dtype=np.uint8) for name in OWNERS}
    found = common_question({0: replace(NEXT, arrays=parts), 1: NEXT})
    assert found.to_bytes() == NEXT.to_bytes()
    with pytest.raises(HedgerowError) as error:
        common_question({0: NEXT, 1: replace(NEXT, arrays={"berlin": NOTHING})})
    assert error.value.code is Code.BAD_ASK


STATE_PLAN = plan_of()
ASK = Ask(
    STATE_PLAN.digest, 3, "servers", ((0, 2),), (1, 2), (), {"a": np.zeros(0, dtype=np.uint8)}
)
USED = np.array([0, 704])


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize(("marked", "opened"), [(False, False), (True, False), (True, True)])
def test_what_was_written_is_read(dtype: str, marked: bool, opened: bool) -> None:
    data = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(dtype) - np.array(9, dtype=dtype)
    numbers = np.array([[1, -2, 3]]) if opened else None
    state = write_state(
        STATE_PLAN, [1], [(0, 2)], LastQuestion(ASK, data, USED, b"tag", marked, numbers)
    )
    splits, last = read_state(state, STATE_PLAN, [1])
    assert splits == [(0, 2)]
    assert last.ask.to_bytes() == ASK.to_bytes()
    assert last.data.dtype == dtype
    np.testing.assert_array_equal(last.data, data)
    np.testing.assert_array_equal(last.used, USED)
    assert last.tag == b"tag"
    assert last.marked is marked
    assert (last.numbers is None) == (not opened)
    if opened:
        np.testing.assert_array_equal(last.numbers, numbers)


def test_a_server_that_was_asked_nothing_keeps_nothing() -> None:
    assert read_state(write_state(STATE_PLAN, [0, 1, 2], [], None), STATE_PLAN, [0, 1, 2]) == (
        [],
        None,
    )


def test_other_files_are_refused() -> None:
    state = write_state(
        STATE_PLAN, [1], [], LastQuestion(ASK, np.zeros(3, dtype=np.uint64), USED, bytes(1))
    )
    for text, plan, servers in (
        (state, plan_of(epsilon=9.0), [1]),
        (state, STATE_PLAN, [2]),
        (state[:-1], STATE_PLAN, [1]),
        (state + b"x", STATE_PLAN, [1]),
        (b"", STATE_PLAN, [1]),
        (state.replace(b"uint64", b"object"), STATE_PLAN, [1]),
        (state.replace(b'"splits":[]', b'"splits":[1]'), STATE_PLAN, [1]),
        (state.replace(b'["uint64",[3],', b'["uint64",[4],'), STATE_PLAN, [1]),
        (state.replace(b'[3],"00",', b'[3],"0",'), STATE_PLAN, [1]),
        (state.replace(b'"00",false]', b'"00",0]'), STATE_PLAN, [1]),
        (state.replace(b'"00",false]', b'"00"]'), STATE_PLAN, [1]),
        (state.replace(b'"ask"', b'"asc"'), STATE_PLAN, [1]),
    ):
        assert text != state or plan is not STATE_PLAN or servers != [1]
        with pytest.raises(HedgerowError) as error:
            read_state(text, plan, servers)
        assert error.value.code is Code.ANSWERS_LOST


EXACT = plan_of(epsilon=None)


def refused(call, code: Code) -> HedgerowError:
    with pytest.raises(HedgerowError) as error:
        call()
    assert error.value.code is code
    return error.value


def changed(asks: dict[str, bytes], server: str, **fields: object) -> dict[str, bytes]:
    """Change what one server is asked, or all of them with server ''."""
    return {
        name: replace(Ask.from_bytes(ask), **fields).to_bytes() if server in ("", name) else ask
        for name, ask in asks.items()
    }


def numbers_of(answer: bytes) -> dict[str, list]:
    return {name: array.tolist() for name, array in TopDownAnswer.from_bytes(answer).arrays.items()}


def root_counts(owners) -> np.ndarray:
    return sum(owner.counts.histogram([0]) for owner in owners.values())


@pytest.mark.parametrize("computed", ["clear", "replicated"])
def test_all_servers_say_what_the_counts_of_all_owners_come_to(computed: str) -> None:
    owners = owners_of(EXACT)
    _, asks = asked(EXACT, owners)
    answers = servers_of(EXACT, computed=computed).answers(asks)
    assert len(set(answers.values())) == 1
    found = numbers_of(answers["server 0"])
    assert found["weight"] == [120]
    assert found["used"] == [0, 0]
    assert found["worth"][0] > 0


def test_rounds_and_bytes_of_every_question_are_as_declared() -> None:
    plan = plan_of(n_splits=3, epsilon=30.0)
    owners, network = owners_of(plan), Simulator(3)
    servers = servers_of(plan, network)
    declares = ReplicatedEngine(Simulator(3), Leakage([]), insecure_seed=b"declared")
    coordinator, phases = asked(plan, owners)[0], set()
    # Keys are drawn by the system, so that their exchange is part of what is counted.
    servers._seed = None
    while asks := coordinator.asks():
        if set(asks) != set(SERVER_NAMES):
            answer_all(coordinator, owners, servers)
            continue
        ask = Ask.from_bytes(asks["server 0"])
        phases.add(ask.phase)
        shape = TreeShape(plan, [*servers.shape.splits, *ask.expand])
        engine = type("Metered", (), {"network": network, "n_parties": 3})
        cost = metered(engine, lambda: answer_all(coordinator, owners, servers))
        assert cost == cost_answer(declares, SecureSplits(plan), ask, shape)
    assert phases == {"servers", "servers, leaves"}


def test_what_was_learned_is_what_was_declared() -> None:
    plan = plan_of(n_splits=2, max_depth=2, epsilon=30.0)
    owners, servers = owners_of(plan), servers_of(plan)
    coordinator, _ = asked(plan, owners)
    while coordinator.asks():
        answer_all(coordinator, owners, servers)
    assert all(row["equal"] for one in servers.leakage for row in one.compare())
    public = servers.what_was_learned("public")
    assert {row["name"] for row in public} == {
        "choice, worth and weight of nodes",
        "class counts of leaves",
    }
    assert all(row["why"].startswith("computed from: ") for row in public)
    reasons = {r for row in public for r in row["why"].removeprefix("computed from: ").split("; ")}
    assert reasons <= {release.reason for release in servers.ledger.releases}
    at_servers = {row["name"] for row in servers.what_was_learned("server 1")}
    assert at_servers == {row["name"] for row in public} | {"counts out of range"}
    assert servers.ledger.formal_total().epsilon == pytest.approx(30.0)
    assert servers.ledger.coalition(["server 0", "server 1"]).epsilon == np.inf


def test_messages_depend_on_public_numbers_alone() -> None:
    plans = []
    for first, n in ((0, 60), (7, 3)):
        network = Recorder(3)
        owners = owners_of(EXACT, n=n, first=first)
        asks = asked(EXACT, owners)[1]
        servers_of(EXACT, network).answers(asks)
        plans.append((network.plans, [len(ask) for ask in asks.values()]))
    assert plans[0] == plans[1]


def test_a_question_is_paid_for_once() -> None:
    plan = plan_of(n_splits=4)
    owners, servers = owners_of(plan), servers_of(plan)
    coordinator, asks = asked(plan, owners)
    refused(lambda: servers.answers(changed(asks, "", round=3)), Code.BAD_ASK)
    refused(lambda: servers.answers(changed(asks, "", phase="servers, leaves")), Code.BAD_ASK)
    refused(lambda: servers.answers(changed(asks, "", plan="f" * 64)), Code.BAD_ASK)
    refused(lambda: servers.answers(changed(asks, "", arrays={})), Code.BAD_ASK)
    refused(lambda: servers.answers(changed(asks, "server 1", round=3)), Code.BAD_ASK)
    refused(lambda: servers.answers({"server 0": asks["server 0"]}), Code.BAD_ASK)
    refused(lambda: servers.answers({"owner": asks["server 0"]}), Code.BAD_ASK)
    first = servers.answers(asks)
    assert servers.answers(asks) == first
    one_owner = {"amsterdam": Ask.from_bytes(asks["server 0"]).arrays["amsterdam"]}
    refused(lambda: servers.answers(changed(asks, "", arrays=one_owner)), Code.ASKED_TWICE)
    refused(lambda: servers.answers(changed(asks, "", round=3)), Code.BAD_ASK)
    refused(
        lambda: servers.answers(changed(asks, "", round=3, expand=((0, 2), (0, 1)))),
        Code.ASKED_TWICE,
    )
    refused(
        lambda: servers.answers(changed(asks, "", round=3, phase="servers, leaves", nodes=(5,))),
        Code.BAD_ASK,
    )
    for name, answer in first.items():
        coordinator.hear(name, answer)
    while coordinator.asks():
        last = coordinator.asks()
        answer_all(coordinator, owners, servers)
    refused(lambda: servers.answers(changed(last, "", round=99)), Code.ASKED_TWICE)


def with_part(asks: dict[str, bytes], server: str, owner: str, part: np.ndarray) -> dict:
    arrays = dict(Ask.from_bytes(asks[server]).arrays)
    arrays[owner] = part
    return changed(asks, server, arrays=arrays)


@pytest.mark.parametrize("computed", ["clear", "replicated"])
def test_an_owner_whose_part_was_touched_is_left_out(computed: str) -> None:
    owners = owners_of(EXACT)
    _, asks = asked(EXACT, owners)
    parts = Ask.from_bytes(asks["server 1"]).arrays
    touched = parts["berlin"].copy()
    touched[60] ^= 4
    # Changed on its way; and that of another owner in its place.
    for part in (touched, parts["amsterdam"]):
        servers = servers_of(EXACT, computed=computed)
        answers = servers.answers(with_part(asks, "server 1", "berlin", part))
        found = numbers_of(answers["server 2"])
        assert found["used"] == [0, Code.SHARES_DIFFER.value]
        assert found["weight"] == [60]


def shared(asks: dict[str, bytes], counts: np.ndarray, owner: str = "berlin") -> dict:
    """Put counts of one's own choice in the place of an owner's."""
    ring = SecureSplits(EXACT).ring
    ask = replace(Ask.from_bytes(asks["server 0"]), round=0, phase="nodes", arrays={})
    parts = seal_parts(counts, ring, ask, ask.expand, owner, PUBLIC_KEYS, lambda n: bytes(range(n)))
    for server, part in parts.items():
        asks = with_part(asks, server, owner, part)
    return asks


def test_counts_out_of_range_are_left_out() -> None:
    """They would move a score of the others' records by more than the noise covers."""
    owners = owners_of(EXACT)
    _, asks = asked(EXACT, owners)
    own = owners["berlin"].counts.histogram([0]).transpose(0, 2, 1)
    for place, value in (((0, 1, 2), -1), ((0, 0, 0), 1 << 31), ((0, 0, 9), CAPACITY + 1)):
        counts = own.copy()
        counts[place] = value
        found = numbers_of(servers_of(EXACT).answers(shared(asks, counts))["server 0"])
        assert found["used"] == [0, Code.CAPACITY_EXCEEDED.value]
        assert found["weight"] == [60]
    assert numbers_of(servers_of(EXACT).answers(shared(asks, own))["server 0"])["used"] == [0, 0]


def test_parts_of_two_arrays_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = owners_of(EXACT)
    _, asks = asked(EXACT, owners)

    def two_faced(value, **options):
        one, other = deal(value, **options), deal(value + 1, **options)
        return one[0], one[1], other[2]

    monkeypatch.setattr("hedgerow.protocols.sharing.sealed_parts.deal", two_faced)
    counts = owners["berlin"].counts.histogram([0]).transpose(0, 2, 1)
    found = numbers_of(servers_of(EXACT).answers(shared(asks, counts))["server 0"])
    assert found["used"] == [0, Code.SHARES_DIFFER.value]


def test_nothing_is_released_if_nobody_is_left() -> None:
    owners = owners_of(EXACT)
    _, asks = asked(EXACT, owners)
    for owner in owners:
        asks = with_part(asks, "server 0", owner, np.zeros(81, dtype=np.uint8))
    servers = servers_of(EXACT)
    refused(lambda: servers.answers(asks), Code.TOO_FEW_OWNERS)
    assert not servers.what_was_learned("public")


class Kept(list):
    """A disk: the newest state, which can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_at = -1

    def __call__(self, state: bytes) -> None:
        if len(self) == self.fails_at:
            self.fails_at = -1
            raise Code.STATE_NOT_WRITTEN.error(found="a full disk")
        self.append(state)


def apart_of(plan, disks, rooms, **options) -> list[SecureServers]:
    return [SecureServers(plan, {i: KEYS[i]}, rooms(i), keep=disks[i], **options) for i in range(3)]


def test_servers_apart_say_what_servers_together_say() -> None:
    plan = plan_of(epsilon=3.0)
    owners = owners_of(plan)
    _, asks = asked(plan, owners)
    together = servers_of(plan).answers(asks)["server 0"]
    disks = [Kept() for _ in range(3)]
    servers = apart_of(plan, disks, meeting(), seed=1)
    assert each_apart(servers, asks) == [together] * 3
    # Before the numbers are opened, when that begins, and after it.
    assert [len(disk) for disk in disks] == [3, 3, 3]


def test_what_was_kept_is_opened_again_and_never_drawn_again() -> None:
    """All have kept their shares, then the line breaks; the system's noise cannot be repeated."""
    plan = plan_of(epsilon=0.5)
    _, asks = asked(plan, owners_of(plan))
    disks = [Kept() for _ in range(3)]
    first = each_apart(apart_of(plan, disks, meeting()), asks)
    assert len(set(first)) == 1
    for newest in (0, 1, 2):  # the state before opening, when it begins, and after it
        rooms = meeting()
        again = [
            SecureServers.resume(
                plan, disks[i][newest if i else 0], keys={i: KEYS[i]}, meet=rooms(i)
            )
            for i in range(3)
        ]
        assert each_apart(again, asks) == first


def test_what_one_has_not_kept_nobody_has_seen_and_it_is_drawn_anew() -> None:
    plan = plan_of(epsilon=0.5)
    _, asks = asked(plan, owners_of(plan))
    disks = [Kept() for _ in range(3)]
    disks[2].fails_at = 0
    servers = apart_of(plan, disks, meeting(patience=1.0))
    # Server 2 fails before it says that it has kept its shares: the others wait in vain.
    failed = [error.code for error in each_apart(servers, asks)]
    assert failed == [Code.PEER_TIMEOUT, Code.PEER_TIMEOUT, Code.STATE_NOT_WRITTEN]
    assert all(not server.what_was_learned("public") for server in servers)
    rooms = meeting()
    again = [
        SecureServers.resume(plan, disks[i][0], keys={i: KEYS[i]}, meet=rooms(i)) for i in range(2)
    ] + [SecureServers(plan, {2: KEYS[2]}, rooms(2))]
    found = each_apart(again, asks)
    assert len(set(found)) == 1
    assert isinstance(found[0], bytes)


def test_shares_of_two_draws_are_not_opened_together() -> None:
    """Twice a server fails before it has kept its shares, each time another one."""
    plan = plan_of(epsilon=40.0)
    _, asks = asked(plan, owners_of(plan))
    disks: list[Kept] = [Kept() for _ in range(3)]
    states: list[bytes | None] = [None] * 3
    for fails in (2, 0):
        disks[fails].fails_at = len(disks[fails])
        rooms = meeting(patience=1.0)
        servers = [
            SecureServers(plan, {i: KEYS[i]}, rooms(i), keep=disks[i])
            if states[i] is None
            else SecureServers.resume(
                plan, states[i], keys={i: KEYS[i]}, meet=rooms(i), keep=disks[i]
            )
            for i in range(3)
        ]
        failed = [error.code for error in each_apart(servers, asks)]
        assert failed[fails] is Code.STATE_NOT_WRITTEN
        states = [disk[-1] if disk else None for disk in disks]
    rooms = meeting()
    again = [
        SecureServers.resume(plan, state, keys={i: KEYS[i]}, meet=rooms(i))
        for i, state in enumerate(states)
        if state is not None
    ]
    found = each_apart(again, asks)
    assert len(set(found)) == 1
    assert abs(numbers_of(found[0])["weight"][0] - 120) < 30


def test_a_server_that_forgot_what_was_opened_stops_the_run() -> None:
    plan = plan_of()
    _, asks = asked(plan, owners_of(plan))
    disks, rooms = [Kept() for _ in range(3)], meeting()
    servers = apart_of(plan, disks, rooms)
    each_apart(servers, asks)
    servers[1] = SecureServers(plan, {1: KEYS[1]}, rooms(1))
    assert [error.code for error in each_apart(servers, asks)] == [Code.ANSWERS_LOST] * 3


def test_a_coordinator_that_asks_different_things_is_found_out() -> None:
    plan = plan_of()
    _, asks = asked(plan, owners_of(plan))
    only = {"amsterdam": Ask.from_bytes(asks["server 2"]).arrays["amsterdam"]}
    servers = apart_of(plan, [Kept() for _ in range(3)], meeting())
    errors = each_apart(servers, changed(asks, "server 2", arrays=only))
    assert [error.code for error in errors] == [Code.BAD_ASK] * 3


def test_states_of_others_are_refused() -> None:
    plan = plan_of()
    servers = servers_of(plan)
    servers.answers(asked(plan, owners_of(plan))[1])
    state = servers.state()
    known = {"keys": KEYS, "meet": lambda: Simulator(3)}
    for other, text, keys in (
        (plan_of(epsilon=5.0), state, KEYS),
        (plan, state[:-3], KEYS),
        (plan, b"nothing", KEYS),
        (plan, state.replace(b"uint64", b"object"), KEYS),
        (plan, state, {1: KEYS[1]}),
    ):
        refused(
            lambda o=other, t=text, k=keys: SecureServers.resume(o, t, **known | {"keys": k}),
            Code.ANSWERS_LOST,
        )
    assert SecureServers.resume(plan, state, **known).state() == state


def test_keys_are_those_of_servers() -> None:
    plan = plan_of()
    for keys, computed in (
        ({}, "replicated"),
        ({3: KEYS[0]}, "replicated"),
        ({0: KEYS[0]}, "clear"),
    ):
        refused(
            lambda k=keys, c=computed: SecureServers(plan, k, lambda: Simulator(3), computed=c),
            Code.BAD_PARAMETER,
        )


def test_what_could_not_be_kept_was_not_opened() -> None:
    """A disk that is full for a while: no number is seen before all of them would be seen again."""
    plan = plan_of()
    _, asks = asked(plan, owners_of(plan))
    kept: list[bytes] = []
    full = [True, True, False]

    def keep(state: bytes) -> None:
        if full and full.pop(0):
            raise OSError("no space left on device")
        kept.append(state)

    servers = SecureServers(plan, KEYS, lambda: Simulator(3), keep=keep)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            servers.answers(asks)
        assert servers.what_was_learned("public") == []
        assert servers.shape.n_nodes == 1
    numbers = numbers_of(servers.answers(asks)["server 0"])
    again = SecureServers.resume(plan, kept[0], keys=KEYS, meet=lambda: Simulator(3), keep=keep)
    assert numbers_of(again.answers(asks)["server 0"]) == numbers


def test_parts_for_one_tree_do_not_open_in_another() -> None:
    """The noise of a node follows the servers' depth of it, and the charge the owner's."""
    plan = plan_of(max_depth=4, n_splits=8)
    owners = owners_of(plan)
    coordinator, asks = asked(plan, owners)
    servers = servers_of(plan)
    for name, answer in servers.answers(asks).items():
        coordinator.hear(name, answer)
    ask = Ask.from_bytes(coordinator.asks()["amsterdam"])
    other = replace(ask, expand=((0, ask.expand[0][1] + 1),))
    parts = {
        name: TopDownAnswer.from_bytes(
            owner.answer((other if name == "berlin" else ask).to_bytes())
        ).arrays
        for name, owner in owners.items()
    }
    later = {
        server: replace(
            ask,
            round=ask.round + 1,
            phase="servers",
            arrays={name: each[server] for name, each in parts.items()},
        ).to_bytes()
        for server in SERVER_NAMES
    }
    found = numbers_of(servers.answers(later)["server 1"])
    assert found["used"] == [0, Code.SHARES_DIFFER.value]
