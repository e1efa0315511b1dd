"""`Console`: serves the pages of a party to its own operator, on loopback alone.

All that can be changed from it is what ``hedgerow runs approve`` changes: the decision on a job
that waits for one, signed with the key of the party and told in its trail. Refusals are H939.
One thread has a loop; pages are made in two others. A connection has one request and some seconds,
fewer until its headers are there. Of too many, the oldest without a session ends: whoever else has
an account on this machine can open them, and does not keep the operator out.
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
from aiohttp.http_exceptions import LineTooLong

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.parties.console.access import ADDRESS_FILE, COOKIE, Access, ConsoleRefusal
from hedgerow.parties.console.facts import PartyFacts
from hedgerow.parties.store.durable import replacing
from hedgerow.parties.wire.gate import Throttle
from hedgerow.parties.wire.service import LastWord
from hedgerow.parties.wire.workers import Workers

HOST = "127.0.0.1"
_MOST_CONNECTIONS = 32
_HEADER_SECONDS = 3.0
"""For which a connection is kept without a request."""
_SECONDS = 20.0
"""For which it is kept after that, whatever it does."""
_MAX_BODY = 1 << 10
_MAX_LINE = 1 << 12
# Browsers send along what every service on this machine has set, whatever its port.
_MAX_FIELD = 1 << 15
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
    """A connection of a browser; `is_known` once it has shown the token, or a session."""

    def __init__(self, console: Console, server: web.Server, loop: asyncio.AbstractEventLoop):
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            logger=_logger,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_FIELD,
            lingering_time=1.0,
            auto_decompress=False,
        )
        self._console = console
        self._wire: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_refused = False
        self.is_known = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, if need be that of another."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._wire = transport
        self.wait(_HEADER_SECONDS)
        self._console.admit(self)

    def wait(self, seconds: float) -> None:
        """End it after so many seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.cut)

    def cut(self) -> None:
        """End it at once."""
        if self._wire is not None:
            self._wire.abort()

    def data_received(self, data: bytes) -> None:
        """Read a request; what follows one that is none is thrown away."""
        if not self._is_refused:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give back what it has taken."""
        if self._timer is not None:
            self._timer.cancel()
        self._console.forget(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Refuse what is no request."""
        del status, message
        if request.writer.output_size > 0:
            raise ConnectionResetError("a page that was not completed")
        self._is_refused = True
        refused = ConsoleRefusal(400, "no request of a browser", "open the address in a browser")
        if isinstance(exc, LineTooLong):
            fix = "delete the cookies of 127.0.0.1 and localhost in the browser"
            refused = ConsoleRefusal(431, "a header that is too long", fix)
        return _page(self._console.refusal(request, refused, LastWord))

    def log_exception(self, *arguments: Any, **options: Any) -> None:
        """Say nothing of connections that end under the library's hands."""


class Console:
    """Pages of a party; port 0 takes a free one. H811 for a port that is taken."""

    def __init__(self, facts: PartyFacts, port: int = 0) -> None:
        self._facts, self._access = facts, Access()
        self._listener = listen(HOST, port)
        self.port: int = self._listener.getsockname()[1]
        # In the order in which they came.
        self._visits: dict[_Visit, None] = {}
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

        visit = request.protocol
        assert isinstance(visit, _Visit)
        visit.wait(_SECONDS)
        try:
            response = await self._answer(request, visit)
        except ConsoleRefusal as refused:
            response = self.refusal(request, refused)
        except HedgerowError as error:
            status = _STATUS.get(error.code, 503)
            response = web.Response(status=status, text=rendering.failure(error))
        except Exception:
            self._note_failure()
            text = rendering.notice("This page could not be made", "The log of the party has why.")
            response = web.Response(status=500, text=text)
        return _page(response)

    def admit(self, visit: _Visit) -> None:
        """Have a connection; of too many, the oldest without a session ends."""
        self._visits[visit] = None
        if len(self._visits) > _MOST_CONNECTIONS:
            oldest = next((one for one in self._visits if not one.is_known), visit)
            self.forget(oldest)
            oldest.cut()

    def forget(self, visit: _Visit) -> None:
        """Give the place of a connection to others."""
        self._visits.pop(visit, None)

    def refusal(
        self,
        request: web.BaseRequest,
        refused: ConsoleRefusal,
        kind: type[web.Response] = web.Response,
    ) -> web.Response:
        """Note that a call is refused; return the page that says so."""
        from hedgerow.parties.console import rendering

        self._note(request, refused.status)
        response = kind(status=refused.status, text=rendering.failure(refused.error))
        if refused.status == 405:
            response.headers["Allow"] = "GET, POST"
        return response

    async def _answer(self, request: web.BaseRequest, visit: _Visit) -> web.Response:
        access, url = self._access, urlsplit(request.path_qs)
        access.check_origin(request.method, request.headers)
        if request.method not in ("GET", "POST"):
            raise ConsoleRefusal(405, f"the method {request.method[:8]}", "use GET or POST")
        if request.method == "GET" and url.path == "/":
            session = access.open_session(_only(url.query, "token"))
            visit.is_known = True
            self._note(request, 303)
            response = web.Response(status=303, headers={"Location": access.path})
            response.set_cookie(COOKIE, session, path=access.path, httponly=True, samesite="Strict")
            return response
        session = access.check_session(request.headers)
        visit.is_known = True
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


def _page(response: web.Response) -> web.Response:
    """Have a response end its connection, with the headers of all pages."""
    from hedgerow.parties.console import rendering

    if response.body is not None:
        response.content_type, response.charset = "text/html", "utf-8"
    response.headers.update(rendering.headers())
    response.force_close()
    return response


def _only(query: str, key: str) -> str:
    """Return the one value of a key; empty if there is none, or several."""
    try:
        found = parse_qs(query, max_num_fields=8).get(key, [])
    except ValueError:
        found = []
    return found[0] if len(found) == 1 else ""


def _nothing_there() -> ConsoleRefusal:
    return ConsoleRefusal(404, "no such page", "go back to the first page of the console")
