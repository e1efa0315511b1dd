"""Kinds of requests are declared with bounds that hold."""

import pytest

from hedgerow.net.channel import MAX_KEY_BYTES
from hedgerow.parties.wire.handlers import Limits, Verb
from tests.parties.wire.parties_calls import echo


@pytest.mark.parametrize("largest", [-1, MAX_KEY_BYTES + 1])
def test_payloads_stay_within_one_key_of_tls(largest: int) -> None:
    with pytest.raises(ValueError, match="largest"):
        Verb(("owner",), echo, largest=largest)


def test_by_default_a_verb_takes_no_payload_and_is_carried_out_once() -> None:
    verb = Verb(("owner",), echo)
    assert (verb.largest, verb.idempotent) == (0, False)
    limits = Limits()
    assert limits.per_member < limits.members
