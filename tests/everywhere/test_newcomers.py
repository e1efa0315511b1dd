"""From nothing to an answered query by the words of docs/how-to, with every party apart.

Each party has a folder of its own, away from all others, and runs the program there; certificates,
the bundle and its digest are all that is handed over. Every command is counted and timed.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from tests.parties.free_ports import free_ports
from tests.parties.runs.party_jobs import DOMAIN
from tests.parties.topdown.topdown_jobs import people
from tests.parties.towns import PATIENCE
from tests.parties.vertical.site_towns import SITES, SiteFiles

PROGRAM = Path(sys.executable).with_name("hedgerow")
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
MOST = 8
"""Commands of a party."""
WORDS = (
    *("consortium new", "keys", "consortium bundle", "consortium add"),
    *("upload", "serve", "consortium check", "train", "query"),
)
"""Of all commands, in the order in which a party says them, whatever the model."""
SERVERS, OWNERS = ("alder", "birch", "cedar"), ("north", "south")


@dataclass
class Party:
    """A folder somewhere, and what was done in it: words and seconds."""

    folder: Path
    done: list[tuple[str, float]] = field(default_factory=list)


class Walk:
    """Parties that know each other by what they send, and their commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parties: dict[str, Party] = {}
        self.serving: list[subprocess.Popen[str]] = []

    def command(self, name: str, *words: object) -> list[dict[str, Any]]:
        """Run the program in the folder of a party, as documented; the lines that it prints."""
        party, begun = self.parties[name], time.perf_counter()
        ended = subprocess.run(
            [PROGRAM, *map(str, words), "--format", "json"],
            cwd=party.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert ended.returncode == 0, (name, words, ended.stdout, ended.stderr)
        party.done.append((said(words), time.perf_counter() - begun))
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def found(self, first: str, *words: object) -> None:
        """One party makes the folders, gives each to its operator and collects certificates."""
        self.parties[first] = Party(self.root / "founding")
        self.parties[first].folder.mkdir()
        ports = ("--first-port", free_ports())
        (made,) = self.command(first, "consortium", "new", "wards", *words, *ports)
        founder = self.parties.pop(first)
        for name, folder in made["folders"].items():
            (self.root / f"at-{name}").mkdir()
            shutil.move(founder.folder / folder, self.root / f"at-{name}" / name)
            self.parties[name] = Party(self.root / f"at-{name}" / name)
        self.parties[first].done = founder.done
        collected, bundle = self.root / "collected", self.root / "bundle.json"
        collected.mkdir()
        for name in self.parties:
            self.command(name, "keys", "-o", collected)
        (made,) = self.command(first, "consortium", "bundle", collected, "-o", bundle)
        for name in self.parties:
            self.command(name, "consortium", "add", bundle, "--expect", made["digest"])

    def serve(self, *names: str) -> None:
        for name in names:
            begun = time.perf_counter()
            process = subprocess.Popen(
                [PROGRAM, "serve", "--format", "json"],
                cwd=self.parties[name].folder,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.serving.append(process)
            assert process.stdout is not None
            assert '"serving"' in process.stdout.readline()
            self.parties[name].done.append(("serve", time.perf_counter() - begun))

    def write(self, name: str, file: str, text: str) -> Path:
        """Let a party have a file, beside its folder."""
        path = self.parties[name].folder.parent / file
        path.write_text(text)
        return path

    def rows(self, name: str, seed: int, n: int = 50, without: Sequence[str] = ()) -> Path:
        path = self.parties[name].folder.parent / "rows.csv"
        pyarrow.csv.write_csv(people(n, seed).drop_columns(list(without)), path)
        return path

    def stop(self) -> None:
        for process in self.serving:
            process.terminate()
        for process in self.serving:
            process.wait(60)


def said(words: Sequence[object]) -> str:
    """Return the verb of a command: one word, or two."""
    return next(one for one in WORDS if " ".join(map(str, words)).startswith(one))


def three_servers(walk: Walk) -> list[Any]:
    walk.found(
        "alder",
        *("--servers", ",".join(SERVERS), "--owners", ",".join(OWNERS), "--analysts", "zoe"),
        *("--populations", "patients=3"),
    )
    walk.serve(*SERVERS)
    for number, name in enumerate(OWNERS):
        domain = walk.write(name, "domain.toml", DOMAIN.to_toml())
        about = ("--domain", domain, "--id", f"{name}-1", "--population", "patients", "--slots", 50)
        walk.command(name, "upload", walk.rows(name, number), *about)
    walk.command("north", "consortium", "check")
    job = walk.write("north", "job.toml", JOB.format(protocol="hidden-tree", more=UPLOADS))
    walk.command("north", "train", job, "--quiet")
    (asked,) = walk.command("zoe", "query", "readmission", walk.rows("zoe", 9, 5, ["ill"]))
    return [row["class"] for row in asked["rows"]]


def owners_and_coordinator(walk: Walk) -> list[Any]:
    walk.found(
        "delta",
        *("--coordinator", "delta", "--owners", ",".join(OWNERS), "--populations", "patients=3"),
    )
    walk.serve("delta")
    for number, name in enumerate(OWNERS):
        walk.command(name, "upload", walk.rows(name, number), "--here", "--population", "patients")
    walk.serve(*OWNERS)
    walk.command("north", "consortium", "check")
    walk.write("north", "domain.toml", DOMAIN.to_toml())
    job = walk.write("north", "job.toml", JOB.format(protocol="topdown", more=NAMED))
    walk.command("north", "train", job, "--quiet")
    (asked,) = walk.command("south", "query", "readmission", walk.rows("south", 9, 5, ["ill"]))
    return [row["class"] for row in asked["rows"]]


def sites(walk: Walk, *, secret: bool) -> list[Any]:
    walk.found(
        "club",
        *(("--servers", ",".join(SERVERS)) if secret else ()),
        *("--sites", ",".join(SITES), "--populations", "days=inf", "--policy", "allow_exact=true"),
    )
    walk.serve(*(SERVERS if secret else ()))
    files = SiteFiles(walk.root)
    for name in SITES:
        about = ("--here", "--population", "days", "--ids", "id", "--domain", files.domain(name))
        walk.command(name, "upload", files.table(name), *about)
    walk.serve(*SITES)
    walk.command("club", "consortium", "check")
    job = walk.write("club", "job.toml", DAYS + ('cardinality = "secret"\n' if secret else ""))
    walk.command("club", "train", job, "--quiet")
    (asked,) = walk.command("office", "query", "tennis", "--id", 9, "--id", 1)
    return [row["class"] for row in asked["rows"]]


JOB = """
name = "readmission"
protocol = "{protocol}"
population = "patients"
{more}
[plan]
epsilon = 1.0
max_depth = 2

[domain]
file = "domain.toml"
"""
UPLOADS = 'model = "readmission"\nuploads = ["north-1", "south-1"]\nanalysts = ["zoe"]'
NAMED = 'owners = ["north", "south"]'
DAYS = """
name = "tennis"
protocol = "vertical-id3"
population = "days"
sites = ["club", "observatory", "office"]
class_at = "club"
classes = ["no", "yes"]
"""
MODELS: dict[str, Callable[[Walk], list[Any]]] = {
    "three servers": three_servers,
    "owners and a coordinator": owners_and_coordinator,
    "sites in a ring": lambda walk: sites(walk, secret=False),
    "sites and three servers": lambda walk: sites(walk, secret=True),
}


@contextmanager
def walking(root: Path) -> Iterator[Walk]:
    walk = Walk(root)
    try:
        yield walk
    finally:
        walk.stop()


def documented() -> set[str]:
    """Return the words of all commands of the page on consortia."""
    text = (HOW_TO / "consortium.md").read_text()
    return {word for word in WORDS if re.search(rf"^hedgerow {word}\b", text, re.M)}


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_eight_commands_are_enough(model: str, tmp_path: Path) -> None:
    with walking(tmp_path) as walk:
        answers = MODELS[model](walk)
    assert set(answers) <= {"no", "yes"}
    assert len(answers) in (2, 5)
    print(f"\n{model}")
    for name, party in walk.parties.items():
        words = [word for word, _ in party.done]
        seconds = sum(taken for _, taken in party.done)
        print(f"{name} | {len(words)} | {seconds:.1f} s | {', '.join(words)}")
        assert len(words) <= MOST, (name, words)
        assert set(words) <= documented(), name
        assert words == sorted(set(words), key=WORDS.index), name
