"""The console of real daemons, in a browser: a job is approved, a server killed, and it ends."""

import json
import re
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from hedgerow.errors import Code
from hedgerow.parties.store.approvals import KIND
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.trail import verify
from hedgerow.reports.party import facts_of_party
from tests.browser import Watched, browser, needs_browser, watched
from tests.parties.console.console_town import (
    console_town,
    console_url,
    epsilon_job,
    opener,
    secrets_of,
)
from tests.parties.towns import Town
from tests.reports.pages import VIEWS

WAIT = 30_000.0
SECRET = re.compile(r"PRIVATE KEY|state\.key|\.pem")


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with console_town(tmp_path_factory.mktemp("console")) as made:
        yield made


def call(url: str, data: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
    """Call as a program does: only with the headers that are given."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    request = urllib.request.Request(url, data, named)
    try:
        with opener.open(request, timeout=30) as reply:
            return reply.status, dict(reply.headers), reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


def session(url: str) -> tuple[str, str]:
    """Open one; return the address of the first page and the cookie."""
    status, headers, _ = call(url)
    assert status == 303
    cookie, *flags = [part.strip() for part in headers["Set-Cookie"].split(";")]
    path = headers["Location"]
    assert {"HttpOnly", "SameSite=Strict", f"Path={path}"} <= set(flags)
    assert "token" not in path
    return f"http://{urlsplit(url).netloc}{path}", cookie


def test_who_gets_an_answer(town: Town) -> None:
    url = console_url(town, "birch")
    place = urlsplit(url)
    root = f"http://{place.netloc}/"
    page, cookie = session(url)
    status, headers, text = call(page, Cookie=cookie)
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    word = re.findall(r'name="word" value="([0-9a-f]{64})"', text)[0]
    form, mine = urlencode({"word": word}).encode(), {"Origin": root.rstrip("/")}
    other, stranger = {"Origin": "http://other.example"}, {"Sec_Fetch_Site": "cross-site"}
    sister = {"Sec_Fetch_Site": "same-site"}
    refused = [
        # No token, a wrong one, two of them; a session that nobody has.
        (401, call(root)),
        (401, call(f"{root}?token=guess")),
        (401, call(f"{url}&token=guess")),
        (401, call(page)),
        (401, call(page, Cookie="hedgerow-console=guess")),
        (401, call(f"{page}leave", form, **mine)),
        # Another name of this machine, and pages of others, also with token or cookie.
        (421, call(url, Host="other.example")),
        (421, call(page, Cookie=cookie, Host=f"other.example:{place.port}")),
        *((403, call(url, **who)) for who in (other, stranger, sister)),
        *((403, call(page, Cookie=cookie, **who)) for who in (other, stranger, sister)),
        *((403, call(f"{page}leave", form, Cookie=cookie, **who)) for who in (other, stranger, {})),
        # A form of no page of this session, and one that never ends.
        (403, call(f"{page}leave", b"word=guess", Cookie=cookie, **mine)),
        (413, call(f"{page}leave", form + b"&x=" + bytes(5000), Cookie=cookie, **mine)),
        (404, call(f"{page}state", Cookie=cookie)),
        (404, call(f"{page}trail/../../policy.toml", Cookie=cookie)),
    ]
    for expected, (found, sent, said) in refused:
        assert (found, Code.CONSOLE_REFUSES.number in said) == (expected, True), said
        assert sent["Cache-Control"] == "no-store"
        assert "Set-Cookie" not in sent
    assert call(f"{page}runs/nothing-0123", Cookie=cookie)[0] == 404
    # It is at no address of the members, nor is theirs on it.
    members = town.parties["birch"].me.ports
    assert place.hostname == "127.0.0.1"
    assert place.port not in members
    status, _, said = call(f"{page}leave", form, Cookie=cookie, **mine)
    assert (status, "You have left" in said) == (200, True)
    assert call(page, Cookie=cookie)[0] == 401
    token = place.query.removeprefix("token=")
    folder = town.parties["birch"].folder
    known = [
        path for path in folder.rglob("*") if path.is_file() and token.encode() in path.read_bytes()
    ]
    assert known == [folder / "state" / "console.url"]
    assert stat.S_IMODE(known[0].stat().st_mode) == 0o600


@pytest.fixture(scope="module")
def refused(town: Town) -> tuple[str, list[int]]:
    """Have a job refused on its page, after what is no decision; return run and statuses."""
    run = town.post(epsilon_job("second"), "north")
    page, cookie = session(console_url(town, "birch"))
    text = call(f"{page}runs/{run}", Cookie=cookie)[2]
    form = dict(re.findall(r'name="(word|hash)" value="([^"]+)"', text))
    mine = {"Origin": page[: page.index("/", 7)], "Cookie": cookie}

    def decide(**fields: str) -> int:
        return call(f"{page}runs/{run}", urlencode(form | fields).encode(), **mine)[0]

    statuses = [
        decide(person="mallory", decision="approve"),
        decide(person="ann", decision="approve", hash="0" * 64),
        decide(person="ann", decision="perhaps"),
        decide(person="ann", decision="approve", word="guess"),
        decide(person="ann", decision="refuse"),
    ]
    town.until_state(run, "failed", "birch")
    return run, [*statuses, decide(person="ann", decision="approve")]


def test_only_who_is_listed_decides_and_only_what_waits(
    town: Town, refused: tuple[str, list[int]]
) -> None:
    run, statuses = refused
    assert statuses == [403, 409, 404, 403, 303, 409]
    assert "ann at birch has refused" in town.errors(run)["birch"]


@pytest.fixture(scope="module")
def hidden(town: Town) -> dict[str, str]:
    return secrets_of(town)


def shown(hidden: dict[str, str], text: str) -> list[str]:
    """Return the names of what a text has, and no page may have."""
    return [name for name, secret in hidden.items() if secret in text]


def test_secrets_on_a_page_would_be_found(town: Town, hidden: dict[str, str]) -> None:
    page, cookie = session(console_url(town, "birch"))
    text = call(page, Cookie=cookie)[2]
    assert shown(hidden, text) == []
    for name, secret in hidden.items():
        assert len(secret) >= 16
        assert name in shown(hidden, text.replace("</main>", f"<p>{secret}</p></main>"))
    kinds = {name.partition(" of ")[0] for name in hidden}
    shares = {"seed 0", "seed 1", "correction"}
    assert kinds == {"token", "column", "party.key", "state.key", "uploads.key", *shares}
    assert len({name.rpartition(" of ")[2].split(",")[0] for name in hidden}) == len(town.parties)


def look(seen: Watched, name: str, shots: Path, hidden: dict[str, str]) -> None:
    """Find nothing that keeps people from using a page; keep a picture of it."""
    page = seen.page
    assert seen.findings() == [], name
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    assert not SECRET.search(page.content())
    assert shown(hidden, page.content()) == []
    page.screenshot(path=shots / f"{name}.png", full_page=True)


def looks(running: Browser, seen: Watched, name: str, shots: Path, hidden: dict[str, str]) -> None:
    """Look at a page as it is, in the dark, on a narrow screen, on paper, and without scripts."""
    look(seen, name, shots, hidden)
    kept = seen.page.context.storage_state()
    for how, options in {**VIEWS, "narrow": {"width": 360}}.items():
        with watched(running, **options) as again:
            again.page.context.add_cookies(kept["cookies"])  # type: ignore[arg-type]
            again.page.goto(seen.page.url)
            look(again, f"{name}-{how}", shots, hidden)
            assert again.errors == []
    with watched(running, script=False) as plain:
        plain.page.context.add_cookies(kept["cookies"])  # type: ignore[arg-type]
        plain.page.goto(seen.page.url)
        assert plain.page.inner_text("main").strip() == seen.page.inner_text("main").strip()


def tab_to(page: Page, id: str) -> None:
    """Reach a control with the keyboard alone."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == id:
            return
    raise AssertionError(f"{id} is not reached")


@pytest.mark.long
@needs_browser
@pytest.mark.usefixtures("refused")
def test_a_run_from_its_approval_over_a_kill_to_its_end(
    town: Town, hidden: dict[str, str], tmp_path: Path
) -> None:
    strikes = town.parties["cedar"].folder / "strikes"
    held = strikes.with_name("reached")
    # It holds still in the first two levels, and is killed in the next one.
    hold, kill = ["keep a stage", "after", "hold"], ["keep a stage", "before", "kill"]
    acts = [hold, hold, kill]
    strikes.write_text(json.dumps(acts))
    job = epsilon_job()
    run, url = town.post(job, "north"), console_url(town, "birch")
    with browser() as running, watched(running) as seen:
        page = seen.page
        page.goto(url)
        assert "token" not in page.url
        page.wait_for_selector(f"#needs >> text={run}", timeout=WAIT)
        needs = page.inner_text("#needs")
        assert "2 things need you" in needs
        assert "second-" in needs
        assert "has failed: ann at birch has refused" in needs
        assert "waits for approval by ann or bob" in needs
        assert "epsilon 1 more" in page.inner_text("#budgets")
        assert "3 of 3" not in page.inner_text("#figures")
        looks(running, seen, "overview", tmp_path, hidden)

        # Its report says for whom it waits, that nothing was charged, and what it would cost.
        facts = facts_of_party(town.parties["birch"], run)
        assert "waits for" in " ".join(facts.notes)
        assert "Nothing was released so far" in " ".join(facts.notes)
        assert {who: cost.epsilon for who, cost in facts.totals.items()}["analyst"] == 1.0
        assert facts.ledger is facts.model is None

        # What it would reveal, to whom; then the keyboard decides.
        page.click(f"#needs a >> text={run}")
        said = page.inner_text("main")
        assert "may be asked by: zoe" in said
        assert job.hash in said
        assert job.to_toml().strip() in said
        looks(running, seen, "run", tmp_path, hidden)
        tab_to(page, "person-1")
        page.keyboard.press("ArrowDown")
        assert page.is_checked("#person-2")
        tab_to(page, "approve")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=approved by bob at birch", timeout=WAIT)
        assert page.query_selector("#approve") is None

        # The page gets on with it, and is not loaded again.
        for level in (1, 2):
            town.until(held.exists, f"level {level}")
            page.wait_for_selector(f"#state >> text=level {level} of 5", timeout=WAIT)
            assert page.get_attribute("#state progress", "value") == str((level - 1) / 5)
            held.unlink()
        town.until(lambda: town.processes["cedar"].poll() is not None, "cedar to be killed")
        town.kill("cedar")
        page.wait_for_selector("#state >> text=waiting for cedar", timeout=WAIT)
        page.click("nav >> text=Overview")
        page.wait_for_selector("#runs >> text=waiting for cedar", timeout=WAIT)
        page.wait_for_selector("#needs >> text=cedar", timeout=WAIT)
        look(seen, "killed", tmp_path, hidden)
        town.start("cedar")
        page.wait_for_selector("#ended >> text=done", timeout=WAIT)
        page.wait_for_selector("#models >> text=illness-model", timeout=WAIT)
        page.wait_for_selector("#needs >> text=nearly used up", timeout=WAIT)
        look(seen, "done", tmp_path, hidden)
        page.click("#models a >> text=illness-model")
        look(seen, "model", tmp_path, hidden)
        page.click("nav >> text=Trail")
        assert "approval" in page.inner_text("#entries")
        look(seen, "trail", tmp_path, hidden)

        assert seen.errors == []
        assert {urlsplit(one).netloc for one in seen.asked} == {urlsplit(url).netloc}
    birch = town.parties["birch"]
    with open_store(birch.state).snapshot() as made:
        verify(made.trail(), made.charges(), birch.identity.pem)
        told = [entry.fields() for entry in made.trail() if entry.kind == KIND]
    decided = [(one["person"], one["approved"]) for one in told if one["hash"] == job.hash]
    assert decided == [("bob", True)]
