"""Classification token by token, and who learns the class."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.messages import (
    Answers,
    AnswersKept,
    Classify,
    Token,
    from_bytes,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site
from reproduce.paper_002.local_sites import LocalSites
from tests.protocols.vertical_id3.ppid3_runs import DAYS, PAPER, Wire, grown, sites_of, weather

# Sunny, hot, normal humidity, weak wind: the instance of section 3.
INSTANCE = [np.array([[0, 0]], dtype=np.uint8), np.array([[1, 0]], dtype=np.uint8)]
TODAY = np.array([100])
# The base point: a key that something can be sealed to.
KEY = (9).to_bytes(32, "little")


def ready(**job) -> tuple[list[Site], Token]:
    sites = sites_of(weather(), PAPER, **job)
    root = grown(sites)
    return sites, root


def tokens(wire: Wire, first: int, root: Token) -> list[str]:
    """Return the tokens that an instance passed by; questions to oneself need no message."""
    found = [Token(to, m.node) for _, to, m in wire.messages if isinstance(m, Classify)]
    return [str(token) for token in ([root, *found] if root.site == first else found)]


def test_the_worked_example_token_by_token() -> None:
    # In figure 2 a leaf lies beside its parent: all sites have the class. Site 2 looks up S2L4
    # itself, so the last step is no message.
    sites, root = ready(class_at=None)
    wire = Wire()
    counts = LocalSites(sites, wire).classify(root, TODAY, INSTANCE, asker=0)
    assert tokens(wire, 0, root) == ["S1L1", "S2L2"]
    humidity = sites[1].nodes[2]
    assert str(humidity.children[1]) == "S2L4"
    assert sites[1].nodes[4].counts == (0, 2)
    assert counts.tolist() == [[0, 2]]
    assert [sender for sender, _, m in wire.messages if isinstance(m, Answers)] == [1]


def test_the_worked_example_with_the_class_at_the_first_site() -> None:
    sites, root = ready(class_at=0)
    wire = Wire()
    counts = LocalSites(sites, wire).classify(root, TODAY, INSTANCE, asker=1)
    assert tokens(wire, 1, root) == ["S1L1", "S2L2", "S1L4"]
    assert counts.tolist() == [[0, 2]]


@pytest.mark.parametrize("asker", [0, 1])
def test_all_days_are_classified(asker: int) -> None:
    sites, root = ready(class_at=0)
    table = weather()
    bins = [table.bins[:, group] for group in PAPER]
    counts = LocalSites(sites).classify(root, table.ids, bins, asker)
    labels = ["no" if no else "yes" for no in counts[:, 0] > counts[:, 1]]
    assert labels == [day[4] for day in DAYS]


def test_sites_see_the_instances_of_their_own_nodes_only() -> None:
    sites, root = ready(class_at=0)
    table, wire = weather(), Wire()
    bins = [table.bins[:, group] for group in PAPER]
    LocalSites(sites, wire).classify(root, table.ids, bins, asker=0)
    reached = {
        m.node: {int.from_bytes(i[1:], "little") for i in m.instances}
        for m in wire.of(Classify, to=1)
    }
    sunny = {i + 1 for i, day in enumerate(DAYS) if day[0] == "sunny"}
    rainy = {i + 1 for i, day in enumerate(DAYS) if day[0] == "rainy"}
    assert reached == {2: sunny, 6: rainy}


def test_the_answer_is_sealed_to_the_asker() -> None:
    sites, root = ready(class_at=0)
    wire = Wire()
    LocalSites(sites, wire).classify(root, TODAY, INSTANCE, asker=1)
    (answer,) = wire.of(Answers, to=1)
    (question,) = wire.of(Classify, to=1)
    assert len(question.key) == 32
    # 16 bytes of counts, under a public key of their own and an authenticator.
    assert len(answer.sealed) == 16 + 32 + 16
    plain = np.array([0, 2], dtype="<i8").tobytes()
    assert plain not in answer.sealed
    again = Wire()
    LocalSites(sites, again).classify(root, TODAY, INSTANCE, asker=1)
    assert again.of(Classify, to=1)[0].key != question.key


def test_the_class_site_may_keep_the_answer() -> None:
    sites, root = ready(class_at=0, answers_to="class site")
    wire = Wire()
    found = LocalSites(sites, wire).classify(root, TODAY, INSTANCE, asker=1)
    assert found is None
    assert wire.of(Answers) == []
    assert len(wire.of(AnswersKept, to=1)) == 1
    ((instances, counts),) = sites[0].kept
    assert counts == (0, 2)
    assert int.from_bytes(instances[0][1:], "little") == 100
    assert sites[1].kept == []
    names = {row["name"] for row in sites[1].what_was_learned()}
    assert "class distributions of instances" not in names


@pytest.mark.parametrize("token", [Token(0, 2), Token(1, 1), Token(0, 99), Token(7, 1)])
def test_a_token_without_a_node_is_refused(token: Token) -> None:
    sites, _ = ready(class_at=0)
    with pytest.raises(HedgerowError, match=str(token)) as caught:
        LocalSites(sites).classify(token, TODAY, INSTANCE, asker=0)
    assert caught.value.code is Code.UNKNOWN_NODE


def test_an_instance_that_a_site_does_not_have_is_refused() -> None:
    sites, root = ready(class_at=0)
    sites[0].offer(TODAY, INSTANCE[0])
    sites[1].offer(TODAY + 1, INSTANCE[1])
    local = LocalSites(sites)
    out = local.programs[0].ask(root, [b"i" + (100).to_bytes(8, "little")], lambda _: None)
    with pytest.raises(HedgerowError, match="1 instances that site 1 does not have"):
        local._carry([(0, out)])


@pytest.mark.parametrize(
    "question",
    [
        Classify(9, 0, KEY, 2, (0, 1), (b"a",), 2),
        Classify(9, 0, KEY, 2, (), (), 0),
        Classify(9, 0, KEY[:31], 2, (0,), (b"a",), 1),
        Classify(9, 5, KEY, 2, (0,), (b"a",), 1),
        # Where answers go to the asker, an empty key would keep them at the class site.
        Classify(9, 0, b"", 2, (0,), (b"a",), 1),
        # Places that the asker's list does not have, or twice, or a list beyond all bounds.
        Classify(9, 0, KEY, 2, (1,), (b"a",), 1),
        Classify(9, 0, KEY, 2, (0, 0), (b"a", b"b"), 2),
        Classify(9, 0, KEY, 2, (0,), (b"a",), 2**63),
        # Nothing can be sealed to a point of small order, of the twist, or written otherwise.
        Classify(9, 0, bytes(32), 2, (0,), (b"a",), 1),
        Classify(9, 0, (2).to_bytes(32, "little"), 2, (0,), (b"a",), 1),
        Classify(9, 0, b"\xff" * 32, 2, (0,), (b"a",), 1),
    ],
)
def test_questions_that_are_not_well_formed_are_refused(question: Classify) -> None:
    sites, _ = ready(class_at=0)
    with pytest.raises(HedgerowError, match="from site 0") as caught:
        SiteProgram(sites[1]).receive(0, to_bytes(question))
    assert caught.value.code is Code.BAD_SITE_MESSAGE


@pytest.mark.parametrize(("rows", "sealed"), [((5,), b""), ((), b""), ((0,), b"x" * 64)])
def test_an_answer_that_was_not_asked_for_or_does_not_open_is_refused(
    rows: tuple[int, ...], sealed: bytes
) -> None:
    sites, root = ready(class_at=0)
    asker = SiteProgram(sites[1])
    (asked,) = asker.ask(root, [b"i" + (100).to_bytes(8, "little")], lambda _: None)
    call = from_bytes(asked.data, "site 1").call
    with pytest.raises(HedgerowError, match="from site 0") as caught:
        asker.receive(0, to_bytes(Answers(call, rows, sealed)))
    assert caught.value.code is Code.BAD_SITE_MESSAGE


@pytest.mark.parametrize("kind", [Answers, AnswersKept])
def test_answers_without_a_question_do_not_pile_up(kind: type) -> None:
    sites, _ = ready(class_at=0)
    message = Answers(1 << 48, (0,), b"x" * 64) if kind is Answers else AnswersKept(1 << 48)
    program = SiteProgram(sites[1])
    for _ in range(3):
        with pytest.raises(HedgerowError, match="not asked for"):
            program.receive(0, to_bytes(message))
    assert program.idle


@pytest.mark.parametrize("answers_to", ["asker", "class site"])
def test_the_asker_is_not_told_who_shares_a_leaf(answers_to: str) -> None:
    """All that comes back is one message, of the same size for all trees and instances."""
    table, sizes = weather(), []
    for rows in (np.arange(14), np.full(14, 2)):
        # The class and all nodes at site 0, which the asker, site 1, is not on the path of.
        sites = sites_of(table, [[0, 1, 2, 3], []], class_at=0, answers_to=answers_to)
        root = grown(sites)
        wire = Wire()
        bins = [table.bins[rows], table.bins[:, :0]]
        found = LocalSites(sites, wire).classify(root, table.ids, bins, asker=1)
        assert (found is None) == (answers_to == "class site")
        (back,) = [m for _, to, m in wire.messages if to == 1]
        sizes.append(len(to_bytes(back)))
        if found is not None:
            assert back.rows == tuple(range(14))
            labels = np.where(found[:, 0] > found[:, 1], "no", "yes")
            assert labels.tolist() == [DAYS[row][4] for row in rows]
    assert sizes[0] == sizes[1]


def test_where_all_sites_hold_the_class_each_leaf_answers() -> None:
    sites, root = ready(class_at=None)
    table, wire = weather(), Wire()
    bins = [table.bins[:, group] for group in PAPER]
    LocalSites(sites, wire).classify(root, table.ids, bins, asker=0)
    # Two nodes with two leaves each at the other site; one leaf beside the root needs no message.
    groups = [m.rows for m in wire.of(Answers, to=0)]
    assert len(groups) == 4
    assert sorted(row for rows in groups for row in rows) == [
        i for i, day in enumerate(DAYS) if day[0] != "overcast"
    ]


def test_questions_whose_instances_get_lost_are_given_up() -> None:
    sites, _ = ready(class_at=0)
    leaf = next(number for number, node in sites[0].nodes.items() if hasattr(node, "counts"))
    program = SiteProgram(sites[0])
    for call in range(300):
        question = Classify(call, 1, KEY, leaf, (0,), (b"a",), 2)
        assert program.receive(1, to_bytes(question)) == []
    assert len(sites[0].collected) == 256
    with pytest.raises(HedgerowError, match="answered for already"):
        program.receive(1, to_bytes(Classify(299, 1, KEY, leaf, (0,), (b"a",), 2)))
    (answer,) = program.receive(1, to_bytes(Classify(299, 1, KEY, leaf, (1,), (b"b",), 2)))
    assert from_bytes(answer.data, "x").rows == (0, 1)
    assert len(sites[0].collected) == 255
