"""`Console`: serves the pages of a party to its own operator, on loopback alone.

All that can be changed from it is what ``hedgerow runs approve`` changes: the decision on a job
that waits for one, signed with the key of the party and told in its trail. Refusals are H939.
One thread has a loop; pages are made in two others. A connection has one request and some seconds.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.parties.console.access import ADDRESS_FILE, COOKIE, Access, ConsoleRefusal
from hedgerow.parties.console.facts import PartyFacts
from hedgerow.parties.store.durable import replacing
from hedgerow.parties.wire.gate import Throttle
from hedgerow.parties.wire.workers import Workers

HOST = "127.0.0.1"
_MOST_CONNECTIONS = 32
_SECONDS = 20.0
"""For which a connection is kept, whatever it does."""
_MAX_BODY = 1 << 10
_MAX_LINE = 1 << 12
_LOGGED_PER_MINUTE = 10
_STATUS = {
    Code.UNKNOWN_RUN: 404,
    Code.UNKNOWN_MODEL: 404,
    Code.BAD_NAME: 404,
    Code.POLICY_REFUSES: 403,
    Code.WRONG_RUN_STATE: 409,
}
_logger = logging.getLogger(__name__)


class _Visit(web.RequestHandler):
    """A connection of a browser."""

    def __init__(self, console: Console, server: web.Server, loop: asyncio.AbstractEventLoop):
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            logger=_logger,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            lingering_time=1.0,
            auto_decompress=False,
        )
        self._console = console
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give it its time, or none if there are too many."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._console.visits.add(self)
        late = len(self._console.visits) > _MOST_CONNECTIONS
        self._timer = self._loop.call_later(0.0 if late else _SECONDS, transport.abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give back what it has taken."""
        if self._timer is not None:
            self._timer.cancel()
        self._console.visits.discard(self)
        super().connection_lost(exc)

    def log_exception(self, *arguments: Any, **options: Any) -> None:
        """Say nothing of connections that end under the library's hands."""


class Console:
    """Pages of a party; port 0 takes a free one. H811 for a port that is taken."""

    def __init__(self, facts: PartyFacts, port: int = 0) -> None:
        self._facts, self._access = facts, Access()
        self._listener = listen(HOST, port)
        self.port: int = self._listener.getsockname()[1]
        self.visits: set[_Visit] = set()
        self._workers = Workers(2)
        self._throttle = Throttle(_LOGGED_PER_MINUTE)
        self._failures = Throttle(_LOGGED_PER_MINUTE)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)

    @property
    def url(self) -> str:
        """Its address, with the token."""
        return f"http://{HOST}:{self.port}/?token={self._access.token}"

    @property
    def _address_file(self) -> Path:
        return self._facts.config.state.path(ADDRESS_FILE)

    def start(self) -> Self:
        """Begin to answer, and write the address down."""
        with replacing(self._address_file) as file:
            file.write(f"{self.url}\n".encode())
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, whoever looks."""
        if self._thread.is_alive():
            self._address_file.unlink(missing_ok=True)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._listener.close()
        self._loop.close()
        self._workers.shutdown()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        server = web.Server(self._serve, loop=loop)
        loop.run_until_complete(
            loop.create_server(lambda: _Visit(self, server, loop), sock=self._listener)
        )
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        # Loaded by the first call: daemons that nobody looks at do without.
        from hedgerow.parties.console import rendering

        try:
            response = await self._answer(request)
        except ConsoleRefusal as refused:
            self._note(request, refused.status)
            text = rendering.failure(refused.error)
            response = web.Response(status=refused.status, text=text)
            if refused.status == 405:
                response.headers["Allow"] = "GET, POST"
        except HedgerowError as error:
            status = _STATUS.get(error.code, 503)
            response = web.Response(status=status, text=rendering.failure(error))
        except Exception:
            self._note_failure()
            text = rendering.notice("This page could not be made", "The log of the party has why.")
            response = web.Response(status=500, text=text)
        if response.body is not None:
            response.content_type, response.charset = "text/html", "utf-8"
        response.headers.update(rendering.headers())
        response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        access, url = self._access, urlsplit(request.path_qs)
        access.check_origin(request.method, request.headers)
        if request.method not in ("GET", "POST"):
            raise ConsoleRefusal(405, f"the method {request.method[:8]}", "use GET or POST")
        if request.method == "GET" and url.path == "/":
            session = access.open_session(_only(url.query, "token"))
            self._note(request, 303)
            response = web.Response(status=303, headers={"Location": access.path})
            response.set_cookie(COOKIE, session, path=access.path, httponly=True, samesite="Strict")
            return response
        session = access.check_session(request.headers)
        if not url.path.startswith(access.path):
            raise _nothing_there()
        page = url.path.removeprefix(access.path)
        if request.method == "POST":
            return await self._take(page, session, await self._form(request, session))
        make = self._page(page, session)
        return web.Response(text=await self._loop.run_in_executor(self._workers, make))

    async def _form(self, request: web.BaseRequest, session: str) -> str:
        """Return what a form of this session sends."""
        body = b""
        while len(body) <= _MAX_BODY and (more := await request.content.readany()):
            body += more
        if len(body) > _MAX_BODY:
            raise ConsoleRefusal(
                413, f"a form of more than {_MAX_BODY} bytes", "load the page again"
            )
        form = body.decode("ascii", "replace")
        self._access.check_form(session, _only(form, "word"))
        return form

    async def _take(self, page: str, session: str, form: str) -> web.Response:
        """Do what a form asks for: leave, or decide about a run."""
        from hedgerow.parties.console import rendering

        room, _, run = page.partition("/")
        if page == "leave":
            self._access.end_session(session)
            said = f"The address in `state/{ADDRESS_FILE}` of the party opens it again."
            return web.Response(text=rendering.notice("You have left the console", said))
        decided = {"approve": True, "refuse": False}.get(_only(form, "decision"))
        if room != "runs" or decided is None:
            raise _nothing_there()
        decide = partial(
            self._facts.decide, run, _only(form, "hash"), _only(form, "person"), approved=decided
        )
        await self._loop.run_in_executor(self._workers, decide)
        # Loading the page again does not decide again.
        return web.Response(status=303, headers={"Location": f"{self._access.path}runs/{run}"})

    def _page(self, page: str, session: str) -> Callable[[], str]:
        """Return what makes a page."""
        from hedgerow.parties.console import rendering

        room, _, name = page.partition("/")
        rooms: dict[str, Callable[[rendering.ConsolePages], str]] = {
            "": lambda desk: desk.overview(),
            "runs": lambda desk: desk.run(name),
            "models": lambda desk: desk.model(name),
            "trail": lambda desk: desk.trail(),
        }
        if room not in rooms or bool(name) != (room in ("runs", "models")):
            raise _nothing_there()
        desk = rendering.ConsolePages(
            self._facts, self._access.path, self._access.form_word(session)
        )
        return lambda: rooms[room](desk)

    def _note(self, request: web.BaseRequest, status: int) -> None:
        """Log who comes in and who is refused; not so often that it fills the disk."""
        held = self._throttle.passes()
        if held is not None:
            event = {"what": "console", "outcome": str(status), "method": request.method[:8]}
            _logger.info("console", extra={"event": event | ({"held": held} if held else {})})

    def _note_failure(self) -> None:
        """Log the exception that is being handled, as sparingly: a page asks again and again."""
        held = self._failures.passes()
        if held is not None:
            event = {"what": "console"} | ({"held": held} if held else {})
            _logger.exception("failure", extra={"event": event})


def _only(query: str, key: str) -> str:
    """Return the one value of a key; empty if there is none, or several."""
    try:
        found = parse_qs(query, max_num_fields=8).get(key, [])
    except ValueError:
        found = []
    return found[0] if len(found) == 1 else ""


def _nothing_there() -> ConsoleRefusal:
    return ConsoleRefusal(404, "no such page", "go back to the first page of the console")
