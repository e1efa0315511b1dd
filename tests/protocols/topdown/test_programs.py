"""The programs of DP-TopDown under kills: nobody draws twice, and the tree is the same.

Members are cut off before and after every durable step that any of them takes. What leaves a member
is recorded on the way: over all attempts there is one answer to a question, and one question.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.frames import mail_digest
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.contract import Context
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.programs import (
    ANSWER,
    ASK,
    GrownTree,
    coordinator_seat,
    longest_mail,
    owner,
    program_of,
)
from hedgerow.protocols.topdown.run import Owners, topdown_member
from hedgerow.protocols.topdown.wire import SERVER_NAMES, Ask, TopDownAnswer
from hedgerow.trees.tree import Tree
from tests.net.faults import Fault, run_spoilt
from tests.protocols.disks import Disk, KilledError, kills
from tests.protocols.topdown.secure_counts import plan_of, table_of
from tests.protocols.topdown.topdown_cases import METHODS, parts, plan, table

COORDINATOR = "coordinator"
NAMES = ("north", "south", "west")


class Watched(Mesh):
    """A mesh that notes all questions and answers, by who is asked or answers, and round."""

    def __init__(self, members: Sequence[str], left: dict[tuple, set[bytes]]) -> None:
        super().__init__(len(members), timeout=60.0)
        self.members, self.left = members, left

    def send(self, pair: tuple[int, int], digest: bytes, content: Any) -> None:
        if digest == mail_digest(ANSWER):
            answer = TopDownAnswer.from_bytes(content)
            self.left["answer", self.members[pair[0]], answer.round].add(content)
        elif digest == mail_digest(ASK) and content:
            ask = Ask.from_bytes(content)
            self.left["ask", self.members[pair[1]], ask.round].add(content)
        super().send(pair, digest, content)


class Town:
    """Owners with their tables, and what all members have kept; attempts are made with it."""

    def __init__(self, made: TopDownPlan, tables: Mapping[str, Any], **terms: Any) -> None:
        self.plan, self.tables = made, tables
        self.terms = Owners(tuple(tables), **({"dropouts": "go on"} | terms))
        self.disks: dict[str, Disk] = defaultdict(Disk)
        self.left: dict[tuple, set[bytes]] = defaultdict(set)
        # They go on where they were, as the system's do: what is drawn again differs.
        self.sources = {n: NoiseSource.insecure_seeded(i) for i, n in enumerate(tables)}

    @property
    def servers(self) -> tuple[str, ...]:
        return SERVER_NAMES[: coordinator_seat(self.plan)]

    def attempt(self, owners: Sequence[str] | None = None) -> GrownTree:
        """Run all members that are there, each at an endpoint of its own."""
        there = tuple(self.tables) if owners is None else tuple(owners)
        members = (*self.servers, COORDINATOR, *there)

        def attend(network: Network) -> Any:
            (party,) = network.local
            name = members[party]
            more: dict[str, Any] = {}
            if name in self.tables:
                more = {"table": self.tables[name], "source": self.sources[name]}
            context = Context(
                network, members, self.plan, self.terms, memory=self.disks[name], **more
            )
            return program_of(self.plan, party)(context)

        seats = [(party,) for party in range(len(members))]
        ends = Watched(members, self.left).run(dict.fromkeys(seats, attend))
        grown = ends.pop(len(self.servers))
        assert isinstance(grown, GrownTree)
        for end in ends:
            tree = end if isinstance(end, bytes) else end.tree
            assert tree == grown.tree.to_json().encode()
        return grown

    def killed(self, member: str, step: int, when: str) -> bool:
        """Make an attempt in which a member is killed; whether it came to that."""
        self.disks[member].kill = (self.disks[member].steps + step, when)
        try:
            self.attempt()
        except KilledError:
            return True
        finally:
            self.disks[member].kill = None
        return False

    def check(self, tree: Tree) -> None:
        """One question and one answer each, and the tree is theirs."""
        for at, found in self.left.items():
            assert len(found) == 1, at
        again = Coordinator(self.plan, tuple(self.tables))
        while asks := again.asks():
            for name, ask in asks.items():
                assert self.left["ask", name, again.round] == {ask}
                (answer,) = self.left["answer", name, again.round]
                again.hear(name, answer)
        assert again.tree() == tree


def town(method: str) -> Town:
    if method == "secure-counts":
        made = plan_of(n_splits=1, max_depth=1, epsilon=3.0)
        return Town(made, {name: table_of(i) for i, name in enumerate(NAMES[:2])})
    made = plan(method, owners=2, n_splits=2, max_depth=2, epsilon=3.0)
    tables = [table(300)] if made.needs_curator else parts(table(300), 2)
    return Town(made, dict(zip(NAMES, tables, strict=False)))


def noise_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an owner's noise follow from the question, so that every run has the same."""
    drawn = Owner._draw

    def draw(self: Owner, ask: Ask, *more: Any) -> Any:
        self.source = NoiseSource.insecure_seeded(100 * ask.round + NAMES.index(self.name))
        return drawn(self, ask, *more)

    monkeypatch.setattr(Owner, "_draw", draw)


@pytest.mark.parametrize("method", METHODS)
def test_wherever_a_member_is_killed_the_tree_is_the_same(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise_of_the_question(monkeypatch)
    clean = town(method)
    expected = clean.attempt()
    places = list(kills(clean.disks, [COORDINATOR, *clean.tables]))
    assert len(places) >= 2 * 2 * expected.traffic.rounds
    for place in places:
        again = town(method)
        assert again.killed(*place), place
        assert again.attempt() == expected, place


@pytest.mark.parametrize("method", METHODS)
def test_wherever_members_are_killed_nobody_draws_twice(method: str) -> None:
    """Twice, and with noise that would differ if it were drawn again."""
    clean = town(method)
    clean.check(clean.attempt().tree)
    for first in kills(clean.disks, [COORDINATOR, *clean.tables]):
        again = town(method)
        assert again.killed(*first), first
        # In the second attempt steps are counted from where the first has ended.
        again.killed(COORDINATOR, first[1] % 3, "before")
        again.killed(NAMES[0], 0, "after")
        again.check(again.attempt().tree)


def test_wherever_a_server_is_killed_nothing_is_drawn_twice() -> None:
    clean = town("secure-counts")
    clean.check(clean.attempt().tree)
    members = [COORDINATOR, NAMES[1], SERVER_NAMES[1]]
    assert [clean.disks[name].steps for name in members] == [10, 2, 7]
    for place in kills(clean.disks, members):
        again = town("secure-counts")
        assert again.killed(*place), place
        again.check(again.attempt().tree)


def test_a_run_that_is_done_gives_the_same_tree_again() -> None:
    for method in (*METHODS, "secure-counts"):
        done = town(method)
        first = done.attempt()
        left = {at: set(found) for at, found in done.left.items()}
        assert done.attempt() == first
        # Nobody is asked, so nobody is missing.
        assert done.attempt([]) == first
        assert done.left == left


def three() -> Mapping[str, Any]:
    return dict(zip(NAMES, parts(table(600), 3), strict=True))


def test_a_lost_owner_ends_the_attempt_and_the_next_goes_on_without_it() -> None:
    made = plan("noisy-counts", owners=3, n_splits=3, max_depth=3)
    again = Town(made, three(), least_owners=2)
    assert again.killed("west", 1, "before")
    asked = {at for at in again.left if at[1] == "west"}
    grown = again.attempt(["north", "south"])
    assert grown.lost == ("west",)
    # It answered one question, which counts; it is asked nothing more, also once it is back.
    assert {at for at in again.left if at[1] == "west"} == asked
    assert again.attempt() == grown
    assert {at for at in again.left if at[1] == "west"} == asked
    reference = Coordinator(made, NAMES)
    while asks := reference.asks():
        for name in asks:
            if ("answer", name, reference.round) in again.left:
                (answer,) = again.left["answer", name, reference.round]
                reference.hear(name, answer)
            else:
                reference.drop(name)
                break
    assert reference.lost_owners == ["west"]
    assert reference.tree() == grown.tree
    assert all(len(found) == 1 for found in again.left.values())


@pytest.mark.parametrize("terms", [{"dropouts": "wait"}, {"least_owners": 3}])
def test_where_the_job_does_not_allow_it_an_owner_is_waited_for(terms: dict) -> None:
    made = plan("noisy-counts", owners=3, n_splits=3, max_depth=3)
    again = Town(made, three(), **terms)
    assert again.killed("west", 1, "after")
    for _ in range(2):
        with pytest.raises(HedgerowError) as caught:
            again.attempt(["north", "south"])
        assert caught.value.code is Code.TOO_FEW_OWNERS
    again.check(again.attempt().tree)


def test_a_lost_owner_whose_sealed_counts_were_heard_is_in_the_tree() -> None:
    again = town("secure-counts")
    assert again.killed(SERVER_NAMES[0], 1, "after")
    again.attempt([NAMES[0]])
    (ask,) = again.left["ask", SERVER_NAMES[2], 1]
    assert set(Ask.from_bytes(ask).arrays) == set(NAMES[:2])
    (last,) = again.left["ask", SERVER_NAMES[2], 3]
    assert set(Ask.from_bytes(last).arrays) == {NAMES[0]}


def test_mail_is_bounded_by_the_plan() -> None:
    """The longest message of a run is within the bound, and nobody takes a longer one."""
    for method in (*METHODS, "secure-counts"):
        done = town(method)
        done.attempt()
        longest = max(len(message) for found in done.left.values() for message in found)
        assert longest < longest_mail(done.plan) < 1 << 28
    one = town("noisy-counts")
    members = (COORDINATOR, *one.tables)

    def ask_too_much(network: Network) -> None:
        network.post(ASK, 0, 1, bytes(longest_mail(one.plan) + 1))
        network.receive(ANSWER, 0, [1])

    def own(network: Network) -> None:
        owner(Context(network, members, one.plan, one.terms, table=one.tables[NAMES[0]]))

    with pytest.raises(HedgerowError) as caught:
        Mesh(3).run({(0,): ask_too_much, (1,): own})
    assert caught.value.code is Code.BAD_FRAME
    assert "party 0 in step 'ask'" in str(caught.value)


def test_a_process_that_dies_ends_the_attempt_for_all() -> None:
    made = plan("noisy-counts", owners=2, n_splits=3, max_depth=3)
    tables = dict(zip(NAMES, parts(table(200), 2), strict=False))
    public = {"plan": made.to_dict(), "seed": 1, "members": [COORDINATOR, *tables]}
    own = {
        party: [{"bins": each.bins, "target": each.target, "present": each.present}]
        for party, each in enumerate(tables.values(), 1)
    }
    faults = {2: Fault("die", ANSWER)}
    ends = run_spoilt(topdown_member, faults, 3, [public], own=own, dial_out={1, 2})
    errors = [end.error for end in ends]
    assert all(error is not None for error in errors)
    assert errors[0].code is Code.PEER_GONE
    assert errors[1].code in {Code.PEER_STOPPED, Code.PEER_GONE}
    assert errors[2].code is Code.PARTY_FAILED
    assert "party 2" in str(errors[0])
    assert f"step {ANSWER!r}" in str(errors[0])


def test_a_server_without_its_keys_refuses() -> None:
    again = town("secure-counts")
    assert again.killed(SERVER_NAMES[0], 2, "after")
    state = again.disks[SERVER_NAMES[0]].state
    assert state is not None
    again.disks[SERVER_NAMES[0]].state = b"[]" + state[state.index(b"\n") :]
    with pytest.raises(HedgerowError) as caught:
        again.attempt()
    assert caught.value.code is Code.ANSWERS_LOST


def test_a_ledger_that_is_given_was_charged_before() -> None:
    made = plan_of(n_splits=1, max_depth=1)
    ledger = Ledger(domain=made.domain)
    ledger.charge(*made.releases(joint=True))
    before = ledger.to_json()
    tables = {name: table_of(i) for i, name in enumerate(NAMES[:2])}
    members = (*SERVER_NAMES, COORDINATOR, *tables)
    told: list[Mapping[str, int]] = []

    def attend(network: Network) -> Any:
        party = network.local[0]
        more: dict[str, Any] = {"table": tables[members[party]]} if party > 3 else {}
        if party == 0:
            more = {"ledger": ledger}
        elif party == 3:
            more = {"progress": told.append}
        context = Context(network, members, made, Owners(tuple(tables)), **more)
        return program_of(made, party)(context)

    record, *_ = Mesh(6).run(dict.fromkeys([(0, 1, 2), (3,), (4,), (5,)], attend))
    assert record.ledger is ledger
    assert ledger.to_json() == before
    assert [one["round"] for one in told] == [0, 1, 2, 3, 4]
    assert told[-1]["splits"] == 1
