"""`Gathering`: those who can only answer together get their question when all of them are there.

Three servers compute with each other; to send two of them to a meeting that the third does not come
to helps nobody. So each waits at the coordinator until all have asked what is wanted. Whoever asks
again instead of answering has failed, and makes the others fail: they come back, and the next
attempt begins when all are there. Who is missing then is known by name.
"""

from __future__ import annotations


class Gathering:
    """Who waits for whom; used under the lock of `hedgerow.parties.topdown.rounds.Rounds`.

    Attributes
    ----------
    group : tuple of str
        Who can only answer together, now; often nobody.
    at_work : set of str
        Who of them has the question of the last attempt and has not come back.
    """

    def __init__(self) -> None:
        self.group: tuple[str, ...] = ()
        self.at_work: set[str] = set()
        self._here: dict[str, object] = {}
        self._due: set[str] = set()

    def renew(self, group: tuple[str, ...]) -> None:
        """Hear who answers together in the question that is open now."""
        if group != self.group:
            self.group = group
            self.at_work.clear()
            self._due.clear()

    def come(self, name: str) -> object:
        """Note that somebody asks what is wanted; return a ticket."""
        # Of a process that was killed the last request may still be here: the new one counts.
        self._here[name] = ticket = object()
        self.at_work.discard(name)
        return ticket

    def leave(self, name: str, ticket: object) -> None:
        """Note that somebody waits no longer."""
        if self.holds(name, ticket):
            del self._here[name]

    def holds(self, name: str, ticket: object) -> bool:
        """Whether this is the newest request of somebody."""
        return self._here.get(name) is ticket

    def waits(self, name: str) -> bool:
        """Whether somebody of the group is here, and waits for the others."""
        return name in self.group and name in self._here

    def complete(self) -> bool:
        """Whether all are here, and another attempt can begin."""
        return bool(self.group) and not self._due and self._here.keys() >= set(self.group)

    def begin(self) -> None:
        """Let all of them have the question."""
        self._due = set(self.group)

    def take(self, name: str, ticket: object) -> bool:
        """Whether somebody gets the question now."""
        if name not in self._due or not self.holds(name, ticket):
            return False
        self._due.discard(name)
        self.at_work.add(name)
        return True
