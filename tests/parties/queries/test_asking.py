"""The analyst's side: what it makes of what servers say."""

import asyncio
import gc
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.queries import asking
from hedgerow.parties.queries.asking import (
    Analyst,
    KnownModel,
    answer_with_tree,
    check_classes,
    rows_at_once,
)
from hedgerow.parties.queries.inquiry import LARGEST_PART, MOST_ROWS, Inquiry, part_bytes
from hedgerow.parties.store.models import ModelManifest
from hedgerow.parties.wire.client import Reply, wait_for
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.tables import Attribute, Domain, encode
from hedgerow.trees import grow_id3
from tests.parties.queries.answer_towns import DOMAIN, Town, encoded, table
from tests.parties.wire.parties_calls import refuses

PLAN = plan_hidden(DOMAIN, noise="none", depth=2, branching="wary")
MANIFEST = ModelManifest("m", "hidden-tree", 0, PLAN.to_dict(), "run", "0" * 64, "tag")


def reply(left: int = 5, tree: bytes = b"", **changes) -> Reply:
    text = replace(MANIFEST, **changes).to_json().encode()
    return Reply({"left": left, "manifest": len(text)}, text + tree)


def test_the_least_that_is_left_counts() -> None:
    known = KnownModel.parse("m", [reply(7), reply(3, server=1), reply(9, server=2)])
    assert known.left == 3
    assert known.plan == PLAN
    assert known.classes == ("no", "yes", "perhaps")
    assert known.tree is None


@pytest.mark.parametrize("changes", [{"tag": "other"}, {"job": "1" * 64}, {"plan": {}}])
def test_models_that_differ(changes: dict) -> None:
    refuses(Code.BAD_REPLY, lambda: KnownModel.parse("m", [reply(), reply(), reply(**changes)]))


def test_replies_that_are_none() -> None:
    good = reply()
    for bad in (
        Reply({}, good.payload),
        Reply(good.fields | {"left": "5"}, good.payload),
        Reply(good.fields | {"manifest": True}, good.payload),
        Reply(good.fields, b"\xff" + good.payload[1:]),
    ):
        refuses(Code.BAD_REPLY, lambda b=bad: KnownModel.parse("m", [good, b, good]))
    refuses(
        Code.BAD_MODEL_FILE,
        lambda: KnownModel.parse("m", [Reply(good.fields, b"[" + good.payload[1:])]),
    )
    refuses(Code.BAD_PARAMETER, lambda: KnownModel.parse("m", [reply(protocol="magic")]))
    # The plan of a tree is none of boosting.
    refuses(Code.BAD_MODEL_FILE, lambda: KnownModel.parse("m", [reply(protocol="hidden-boosting")]))


def test_an_opened_tree_answers_by_itself() -> None:
    tree = grow_id3(encoded(), criterion="max", max_depth=2)
    document = json.dumps(tree.to_dict()).encode()
    known = KnownModel.parse("m", [reply(protocol="open-tree", tree=document)] * 3)
    rows = encode(table(50, seed=4)[0], DOMAIN)
    found = answer_with_tree(known, rows, proba=True)
    np.testing.assert_array_equal(found.index, tree.predict_class(rows.bins))
    np.testing.assert_allclose(found.shares, tree.distribution(rows.bins))
    assert set(found.labels) <= set(known.classes)


def test_classes_that_do_not_exist() -> None:
    known = KnownModel(MANIFEST, PLAN, 5)
    for bad in ([3], [-1]):
        refuses(Code.BAD_REPLY, lambda b=bad: check_classes(np.array(b), known))
    assert check_classes(np.array([0, 2]), known).tolist() == [0, 2]


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


class Scripted(Analyst):
    """Servers say what a script has for them."""

    def __init__(self, town: Town, *script: dict, **options) -> None:
        super().__init__(town.configs["ann0"], **{"timeout": 5.0} | options)
        self.script, self.made = list(script), []

    async def _ask(self, server, verb, fields, payload, seconds):
        number = [s.name for s in self.config.servers].index(server.name)
        self.made.append((number, fields, payload))
        said = self.script[min(len([m for m in self.made if m[0] == number]), len(self.script)) - 1]
        found = said[number]
        if isinstance(found, HedgerowError):
            raise found
        return found


def answers(*numbers: int, draw=("d", "d"), dtype: str = "uint16") -> dict[int, Reply]:
    whole = np.array(numbers, dtype=np.uint16)
    mask = np.arange(len(numbers), dtype=np.uint16) * 40_000
    fields = [
        {"state": "answered", "draw": one, "dtype": dtype, "shape": [len(numbers)]} for one in draw
    ]
    return {
        0: Reply(fields[0], (whole - mask).tobytes()),
        1: Reply(fields[1], mask.tobytes()),
        2: Reply({"state": "answered", "draw": draw[0]}, b""),
    }


WAITING = Reply({"state": "waiting", "why": "H882 no birch"}, b"")
KNOWN = KnownModel(None, PLAN, 100)  # type: ignore[arg-type]


def known() -> KnownModel:
    class Named:
        name, protocol = "m", "hidden-tree"

    return replace(KNOWN, manifest=Named())  # type: ignore[arg-type]


def test_a_request_is_repeated_as_it_was(town: Town) -> None:
    cut = Code.REQUEST_CUT_OFF.error(found="x")
    busy = Code.SERVICE_BUSY.error(found="x")
    script = [
        {0: cut, 1: WAITING, 2: busy},
        answers(0, 1, 2) | {1: WAITING},
        answers(0, 1, 2),
    ]
    analyst = Scripted(town, *script)
    assert analyst.ask(known(), table(3)[0]).labels == ["no", "yes", "perhaps"]
    assert len(analyst.made) >= 8
    assert len({fields["id"] for _, fields, _ in analyst.made}) == 1
    assert [fields["again"] for _, fields, _ in analyst.made] == [False] * 3 + [True] * (
        len(analyst.made) - 3
    )
    for server in range(3):
        assert len({b"".join(p) for s, _, p in analyst.made if s == server}) == 1


def test_the_reason_of_the_server_that_refuses_is_told(town: Town) -> None:
    elsewhere = Code.QUERY_REFUSED_ELSEWHERE.error(found="x")
    spent = Code.BUDGET_EXCEEDED.error(found="3 more asked for, 2 left")
    for script in ({0: elsewhere, 1: spent, 2: elsewhere}, {0: spent, 1: spent, 2: WAITING}):
        analyst = Scripted(town, script)
        error = refuses(Code.BUDGET_EXCEEDED, lambda a=analyst: a.ask(known(), table(3)[0]))
        assert "2 left" in error.found


def test_it_gives_up_in_time(town: Town) -> None:
    analyst = Scripted(town, {0: WAITING, 1: Code.SERVICE_UNREACHABLE.error(found="x"), 2: WAITING})
    analyst.timeout = 0.3
    begun = time.monotonic()
    error = refuses(Code.QUERY_NOT_ANSWERED, lambda: analyst.ask(known(), table(3)[0]))
    assert time.monotonic() - begun < 2
    assert "alder waits: H882 no birch" in error.found
    assert "birch: H882" in error.found


@pytest.mark.parametrize(
    "replies",
    [
        answers(0, 1, 2, draw=("d", "e")),
        answers(0, 1, 2, dtype="uint32"),
        answers(0, 1, 2, dtype="object"),
        answers(0, 1),
        answers(0, 1, 3),
        answers(0, 1, 2) | {1: Reply({"state": "answered"}, b"")},
    ],
)
def test_halves_that_are_none(town: Town, replies: dict) -> None:
    refuses(Code.BAD_REPLY, lambda: Scripted(town, replies).ask(known(), table(3)[0]))


def test_what_is_left_is_known_before_anything_is_sent(town: Town) -> None:
    analyst = Scripted(town)
    error = refuses(
        Code.BUDGET_EXCEEDED, lambda: analyst.ask(replace(known(), left=2), table(3)[0])
    )
    assert "at most 2 more rows" in error.expected
    assert analyst.made == []
    wrong = table(3)[0] + 50
    refuses(Code.UNKNOWN_CATEGORY, lambda: analyst.ask(known(), wrong))


def test_many_rows_go_in_several_requests(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    analyst = town.analyst()
    town.train("m")
    monkeypatch.setattr(asking, "MOST_ROWS", 100)
    rows = table(250)[0]
    with town.open():
        found = analyst.ask("m", rows)
        assert len(town.log(0, "m")) == 3
    tree = grow_id3(encoded(), criterion="max", max_depth=3)
    expected = tree.predict_class(encode(rows, DOMAIN).bins)
    np.testing.assert_array_equal(found.index, expected)
    assert len(found.labels) == 250


def test_rows_of_a_request_fit_into_it() -> None:
    assert rows_at_once(PLAN) == MOST_ROWS
    wide = Domain(
        attributes=tuple(
            Attribute(name=f"a{i}", kind="numeric", bounds=(0, 1), bins=16) for i in range(9000)
        ),
        target=DOMAIN.target,
        capacity=10,
    )
    plan = plan_hidden(wide, noise="none", depth=1)
    assert part_bytes(plan.layout, rows_at_once(plan), 1) <= LARGEST_PART
    assert part_bytes(plan.layout, 2 * rows_at_once(plan), 1) > LARGEST_PART


def test_only_analysts_ask(town: Town) -> None:
    refuses(Code.WRONG_ROLE, lambda: Analyst(town.configs["north"]))


def test_a_query_is_dealt_afresh_each_time(town: Town) -> None:
    analyst = Scripted(town, answers(0, 1, 2))
    for _ in range(2):
        analyst.ask(known(), table(3)[0])
    sent = [b"".join(p) for server, _, p in analyst.made if server == 0]
    assert len(set(sent)) == 2
    ids = {fields["id"] for _, fields, _ in analyst.made}
    assert len(ids) == 2
    assert Inquiry.model_validate(analyst.made[0][1]).n == 3


class Lasting(Scripted):
    """Birch falls over; the others keep the analyst waiting until birch has its part again."""

    def __init__(self, town: Town) -> None:
        super().__init__(town, answers(0, 1))
        self.back = asyncio.Event()

    async def _ask(self, server, verb, fields, payload, seconds):
        if server.name == "birch":
            if not self.made:
                self.made.append((1, fields, payload))
                raise Code.REQUEST_CUT_OFF.error(found="a server that fell over")
            self.back.set()
        else:
            await asyncio.wait_for(self.back.wait(), 30.0)
        return await super()._ask(server, verb, fields, payload, seconds)


def test_a_server_that_fell_over_is_asked_again_while_the_others_keep_waiting(town: Town) -> None:
    analyst, begun = Lasting(town), time.monotonic()
    found = analyst.ask(known(), table(2)[0])
    assert found.index.tolist() == [0, 1]
    assert time.monotonic() - begun < 5.0
    asked = [fields for number, fields, _ in analyst.made if number == 1]
    assert [fields["again"] for fields in asked] == [False, True]
    assert len({fields["id"] for fields in asked}) == 1


def test_a_model_is_asked_for_again_while_a_server_is_away(town: Town) -> None:
    cut = Code.REQUEST_CUT_OFF.error(found="a server that fell over")
    away = Code.SERVICE_UNREACHABLE.error(found="nobody there")
    town.train("m")
    with town.open():
        real = town.analyst()
        told = {
            number: wait_for(real._ask(server, "models", {"model": "m"}, None, 20.0))
            for number, server in enumerate(real.config.servers)
        }
    waits: list[str] = []
    script = [told | {1: cut}, told | {1: away}, told]
    analyst = Scripted(town, *script, waits=waits.append)
    assert analyst.find("m").left == real_left(told)
    assert waits == [
        "waiting for birch: a server that fell over",
        "waiting for birch: nobody there",
    ]
    assert all(fields == {"model": "m"} for _, fields, _ in analyst.made)
    # Not for ever, and not if it is refused.
    refuses(
        Code.SERVICE_UNREACHABLE, lambda: Scripted(town, {**told, 1: away}, timeout=0.2).find("m")
    )
    unknown = Code.BAD_MODEL_FILE.error(found="m")
    refuses(Code.BAD_MODEL_FILE, lambda: Scripted(town, {**told, 2: unknown}).find("m"))


def real_left(told: dict[int, Reply]) -> int:
    return min(reply.fields["left"] for reply in told.values())


def test_a_request_that_nobody_waits_for_any_more_fails_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two servers have answered; the third one's connection is closed when the program ends."""
    said: list[dict] = []

    async def ask(server, verb, fields, payload, seconds) -> Reply:
        if server.name == "third":
            await asyncio.sleep(0.01)
            raise RuntimeError("Session is closed")
        return Reply({"state": "answered"}, b"")

    async def all_of_them() -> dict:
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: said.append(about))
        analyst = Analyst.__new__(Analyst)
        servers = [SimpleNamespace(name=name) for name in ("first", "second", "third")]
        analyst.config, analyst._unread = SimpleNamespace(servers=servers), set()
        monkeypatch.setattr(analyst, "_ask", ask)
        found = await analyst._all("ask", {}, [b""] * 3, until=time.monotonic() + 5)
        await asyncio.sleep(0.1)
        analyst._unread.clear()
        gc.collect()
        return found

    assert sorted(asyncio.run(all_of_them())) == [0, 1]
    assert said == []
