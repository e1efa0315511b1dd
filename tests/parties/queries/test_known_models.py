"""A model as an analyst knows it: one that all servers have alike."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.queries.known_models import KnownModel, by_itself, checked
from hedgerow.parties.store.models import Manifest
from hedgerow.parties.wire.client import Reply
from hedgerow.protocols.hidden.plan import plan_hidden
from hedgerow.tables import encode
from hedgerow.trees import grow_id3
from tests.parties.queries.answer_towns import DOMAIN, encoded, table
from tests.parties.wire.parties_calls import refuses

PLAN = plan_hidden(DOMAIN, noise="none", depth=2, branching="wary")
MANIFEST = Manifest("m", "trees", 0, PLAN.to_dict(), "run", "0" * 64, "tag")


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
    refuses(Code.BAD_PARAMETER, lambda: KnownModel.parse("m", [reply(kind="magic")]))
    # The plan of a tree is none of boosting.
    refuses(Code.BAD_MODEL_FILE, lambda: KnownModel.parse("m", [reply(kind="boosting")]))


def test_an_opened_tree_answers_by_itself() -> None:
    tree = grow_id3(encoded(), criterion="max", max_depth=2)
    document = json.dumps(tree.to_dict()).encode()
    known = KnownModel.parse("m", [reply(kind="open", tree=document)] * 3)
    rows = encode(table(50, seed=4)[0], DOMAIN)
    found = by_itself(known, rows, proba=True)
    np.testing.assert_array_equal(found.index, tree.predict_class(rows.bins))
    np.testing.assert_allclose(found.shares, tree.distribution(rows.bins))
    assert set(found.labels) <= set(known.classes)


def test_classes_that_do_not_exist() -> None:
    known = KnownModel(MANIFEST, PLAN, 5)
    for bad in ([3], [-1]):
        refuses(Code.BAD_REPLY, lambda b=bad: checked(np.array(b), known))
    assert checked(np.array([0, 2]), known).tolist() == [0, 2]
