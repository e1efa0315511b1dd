"""Letters to a member that is killed, or cut off, on the way."""

import threading
import time
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.wire.handlers import Caller
from hedgerow.parties.wire.inbox import Inbox, InboxFields
from hedgerow.parties.wire.requests import Fields

EAST = Caller("east", "owner")


def fetch(inbox: Inbox, **fields: Any) -> Fields:
    return inbox.fetch(EAST, InboxFields.model_validate({"wait": 20.0, **fields}))[0]


class Aside(threading.Thread):
    """Does something in a thread of its own; `result` or `error` when it has ended."""

    def __init__(self, function: Any) -> None:
        super().__init__(daemon=True)
        self.function, self.result, self.error = function, None, None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.function()
        except HedgerowError as error:
            self.error = error


def asking(inbox: Inbox) -> Aside:
    return Aside(lambda: inbox.ask("east", "run-ready", {"run": "r"}, seconds=20.0))


def test_a_request_of_a_process_that_is_gone_takes_no_letter() -> None:
    inbox, begun = Inbox(), time.monotonic()
    gone = Aside(lambda: fetch(inbox))
    while not inbox._turns["east"]:
        time.sleep(0.01)
    there = Aside(lambda: fetch(inbox))
    gone.join()
    assert gone.result == {}
    asked = asking(inbox)
    there.join()
    assert there.result["verb"] == "run-ready"
    fetch(inbox, wait=0.0, letter=there.result["letter"], reply={"state": "done"})
    asked.join()
    assert asked.result.fields == {"state": "done"}
    assert time.monotonic() - begun < 15


def test_who_has_left_a_letter_hears_at_once_that_it_was_lost() -> None:
    inbox, begun = Inbox(), time.monotonic()
    asked = asking(inbox)
    letter = fetch(inbox)
    # Killed before it answers, and started again.
    assert fetch(inbox, wait=0.0) == {}
    asked.join()
    assert asked.error.code is Code.REQUEST_CUT_OFF
    # What comes after all changes nothing.
    assert fetch(inbox, wait=0.0, letter=letter["letter"], reply={}) == {}
    assert time.monotonic() - begun < 15
