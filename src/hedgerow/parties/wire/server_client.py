"""`ServerClient`: ask the three servers one thing at once, and hear each of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hedgerow.errors import HedgerowError
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.wire.client import Reply, call
from hedgerow.parties.wire.requests import Fields


class ServerClient:
    """The servers of a consortium, as one of its members sees them.

    `config`: of any member; a server asks the other two.
    """

    def __init__(self, config: PartyConfig) -> None:
        self._config = config
        config.check_servers()
        self.servers = [server for server in config.servers if server != config.me]

    def _ask_all(self, verb: str, fields: Fields) -> dict[str, Reply | HedgerowError]:
        """Return the reply of every server, or why there is none, by its name."""

        def one(server: Member) -> Reply | HedgerowError:
            try:
                return self._call(server, verb, fields)
            except HedgerowError as error:
                return error

        # At once: each of them may take the whole timeout.
        with ThreadPoolExecutor(max_workers=len(self.servers)) as pool:
            replies = pool.map(one, self.servers)
            return {s.name: reply for s, reply in zip(self.servers, replies, strict=True)}

    def _call(
        self, server: Member, verb: str, fields: Fields, payload: bytes | None = None
    ) -> Reply:
        timeouts = self._config.timeouts
        return call(
            (server.host, server.port),
            self._config.identity,
            self._config.certificate(server.name),
            verb,
            fields,
            payload,
            name=server.name,
            timeout=timeouts.request,
            connect_timeout=timeouts.connect,
        )
