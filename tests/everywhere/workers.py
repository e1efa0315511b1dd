"""Something that workers of a daemon do before an attempt; they are forked from it."""

from collections.abc import Callable
from typing import Any

from hedgerow.parties.runs import worker


def before_attempts(first: Callable[..., None]) -> None:
    """Have workers of this process call a function with the words that they are ordered by."""
    attempt_run = worker.attempt_run

    def attempt(*arguments: str, **more: Any) -> int:
        first(*arguments)
        return attempt_run(*arguments, **more)

    worker.attempt_run = attempt
