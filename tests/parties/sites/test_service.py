"""What a site refuses of those who call it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.reach import ask_health
from hedgerow.parties.wire.client import Reply, call
from hedgerow.parties.wire.requests import Body, Payload, error_fields
from tests.parties.sites.site_town import SiteTown, make_job
from tests.parties.wire.parties_calls import refuses

JOB, TREE = make_job(), "ab" * 16
ERROR = error_fields(Code.SITE_LOST.error(found="nobody"))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory):
    made = SiteTown(tmp_path_factory.mktemp("sites"))
    with made.serving(JOB, "observatory"):
        yield made


def ask(town: SiteTown, sender: str, verb: str, payload: Payload = None, **fields: Any) -> Reply:
    config = town.parties[sender]
    to = config.member("observatory")
    return call(
        (to.host, to.port),
        config.identity,
        config.certificate("observatory"),
        verb,
        {"run": JOB.run_id, "hash": JOB.hash, **fields},
        payload,
        name="observatory",
    )


def test_health(town: SiteTown) -> None:
    config = town.parties["club"]
    health = ask_health(config, config.member("observatory"))
    assert health is not None
    assert health.members == config.list_digest


@pytest.mark.parametrize(
    ("code", "sender", "verb", "fields"),
    [
        # Only the site that begins begins.
        (Code.CALLER_NOT_ALLOWED, "office", "site-begin", {"tree": TREE}),
        (Code.CALLER_NOT_ALLOWED, "office", "site-go", {"tree": TREE}),
        (Code.CALLER_NOT_ALLOWED, "office", "site-keep", {"tree": TREE}),
        (Code.CALLER_NOT_ALLOWED, "office", "site-store", {"tree": TREE, "root": [0, 1]}),
        # Only its own operator commands a site, and it is no other site.
        (Code.CALLER_NOT_ALLOWED, "club", "site-train", {}),
        (Code.CALLER_NOT_ALLOWED, "club", "site-ask", {}),
        (Code.CALLER_NOT_ALLOWED, "club", "site-status", {"seen": 0, "wait": 0}),
        (Code.CALLER_NOT_ALLOWED, "observatory", "site-begin", {"tree": TREE}),
        (Code.CALLER_NOT_ALLOWED, "observatory", "site-alive", {"tree": TREE}),
        (Code.JOBS_DIFFER, "club", "site-begin", {"tree": TREE, "hash": "0" * 64}),
        (Code.JOBS_DIFFER, "club", "site-begin", {"tree": TREE, "run": "tennis-1"}),
        (Code.BAD_REQUEST, "club", "site-begin", {}),
        (Code.BAD_REQUEST, "club", "site-begin", {"tree": "../x"}),
        (Code.BAD_REQUEST, "club", "site-begin", {"tree": TREE, "more": 1}),
        (Code.BAD_REQUEST, "club", "site-store", {"tree": TREE, "root": [9, 1]}),
        (Code.BAD_REQUEST, "club", "site-store", {"tree": TREE, "root": "S1L1"}),
        (Code.BAD_REQUEST, "club", "site-end", {"tree": TREE, "error": None}),
        (Code.BAD_REPLY, "club", "site-end", {"tree": TREE, "error": {"code": 1}}),
        (Code.BAD_REQUEST, "club", "site-refused", {"tree": TREE, "call": -1, **ERROR}),
        (Code.BAD_REQUEST, "observatory", "site-status", {"seen": 0, "wait": 1e9}),
        # What it knows nothing of.
        (Code.WRONG_RUN_STATE, "club", "site-go", {"tree": TREE}),
        (Code.WRONG_RUN_STATE, "club", "site-alive", {"tree": TREE}),
        (Code.WRONG_RUN_STATE, "club", "site-store", {"tree": TREE, "root": [0, 1]}),
        (Code.WRONG_RUN_STATE, "club", "site-keep", {"tree": TREE}),
        (Code.NOT_GROWN, "club", "site-refused", {"tree": TREE, "call": "7", **ERROR}),
    ],
)
def test_what_is_refused(town: SiteTown, code: Code, sender: str, verb: str, fields) -> None:
    refuses(code, lambda: ask(town, sender, verb, **fields))


def test_messages_of_no_attempt(town: SiteTown) -> None:
    line = {"tree": TREE, "line": "a", "first": 0}
    refuses(
        Code.WRONG_RUN_STATE, lambda: ask(town, "club", "site-message", b"", what="grow", **line)
    )
    refuses(Code.NOT_GROWN, lambda: ask(town, "club", "site-message", b"", what="ask", **line))

    def endless() -> Iterator[bytes]:
        raise AssertionError("asked for the payload of a tree that nobody knows")
        yield b""

    for what, code in (("grow", Code.WRONG_RUN_STATE), ("ask", Code.NOT_GROWN)):
        body = Body(1 << 28, endless())
        refuses(
            code,
            lambda what=what, body=body: ask(town, "club", "site-message", body, what=what, **line),
        )


def test_questions_of_the_operator(town: SiteTown) -> None:
    for data in (b"[]", b"{}", json.dumps({"ids": []}).encode(), b"\xff"):
        refuses(Code.BAD_REQUEST, lambda data=data: ask(town, "observatory", "site-ask", data))
    status = ask(town, "observatory", "site-status", seen=-1, wait=0).fields["status"]
    assert (status["state"], status["root"], status["error"]) == ("idle", None, None)


def test_an_attempt_of_two_requests_is_one(town: SiteTown) -> None:
    for _ in range(2):
        assert ask(town, "club", "site-begin", tree=TREE).fields == {"hash": JOB.hash}
    assert ask(town, "office", "site-alive", tree=TREE).fields["busy"] is False
    # Who takes part may end it; the others are told why when they ask.
    ask(town, "office", "site-end", tree=TREE, **ERROR)
    assert (
        "nobody"
        in refuses(Code.SITE_LOST, lambda: ask(town, "club", "site-alive", tree=TREE)).found
    )
    assert not any(town.kept(JOB).values())
