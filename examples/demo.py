"""A consortium on one machine: three servers, two hospitals with different columns, one analyst.

Run by ``make demo``. Every server is a process with a folder of its own, and all of them talk over
mutual TLS, as they would between organisations; whatever is done is done with the program
`hedgerow`. The data come with scikit-learn, their public domain is breast_cancer.toml beside this
file. All that is written goes into a temporary folder, which is removed at the end, or into one
that stays: ``make demo KEEP=trial``, or ``python examples/demo.py --keep trial``.
"""

import argparse
import contextlib
import csv
import io
import json
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from hedgerow import CARTClassifier, Domain
from hedgerow.cli.main import app
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.meters import read_meter
from hedgerow.privacy import Leakage, Ledger

DOMAIN = Path(__file__).with_name("breast_cancer.toml")
PAGE = "demo-report.html"
SERVERS, OWNERS, ANALYST = ("alder", "birch", "cedar"), ("north", "south"), "zoe"
MODEL, EPSILON, DEPTH = "diagnosis-1", 1.0, 3
JOB = f"""
name = "diagnosis"
protocol = "hidden-tree"           # hidden on the servers
model = "{MODEL}"
population = "patients"
uploads = ["north-1", "south-1"]
partition = "vertical"             # the owners hold columns of the same patients
analysts = ["{ANALYST}"]

[plan]
noise = "splits+leaves"
epsilon = {EPSILON}
max_depth = {DEPTH}

[domain]
file = "domain.toml"
"""
console = Console(width=100, highlight=False)


@dataclass
class Demo:
    """What is under way, and what was measured."""

    root: Path
    daemons: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    costs: list[tuple[str, float, int]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The folder of the consortium, with a folder per party in it."""
        return self.root / "wards"

    def found(self) -> None:
        """Make folders and keys, and exchange certificates; here, the telephone is left out."""
        names = ["--servers", ",".join(SERVERS), "--owners", ",".join(OWNERS)]
        more = ["--analysts", ANALYST, "--populations", "patients=3", "--into", str(self.root)]
        port = ["--first-port", str(free_ports())]
        here("consortium", "new", "wards", *names, *more, *port, "--study")

    def start(self) -> None:
        """Start the servers and wait until they take requests."""
        for name in SERVERS:
            self.daemons[name] = subprocess.Popen(  # noqa: S603
                program("serve"), cwd=self.home / name, stdout=subprocess.PIPE, text=True
            )
        for name, daemon in self.daemons.items():
            if not daemon.stdout or '"serving"' not in daemon.stdout.readline():
                raise SystemExit(f"{name} did not start")

    def stop(self) -> None:
        """Stop the servers."""
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.communicate()

    def run(self, party: str, *arguments: str) -> Iterator[dict[str, Any]]:
        """Run a command at a party, and yield the lines that it prints."""
        process = subprocess.Popen(  # noqa: S603
            program(*arguments),
            cwd=self.home / party,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            yield json.loads(line)
        words = process.stderr.read()
        if process.wait():
            raise SystemExit(f"hedgerow {' '.join(arguments)} at {party}:\n{words}")

    def last(self, party: str, *arguments: str) -> dict[str, Any]:
        """Run a command at a party, and return the last line that it prints."""
        *_, line = self.run(party, *arguments)
        return line

    @contextlib.contextmanager
    def step(self, what: str, command: str) -> Iterator[dict[str, Any]]:
        """Show a step while it lasts, and note its seconds and bytes."""
        begun, more = time.monotonic(), {"bytes": 0, "note": ""}
        with console.status(f"{what} ...") as status:
            more["status"] = status
            yield more
        seconds = time.monotonic() - begun
        self.costs.append((what, seconds, more["bytes"]))
        console.print(f"[green]✓[/] {what} [dim]({seconds:.1f} s) {command}[/]")


def program(*arguments: str) -> list[str]:
    """Return the command line of the program, with JSON as its output."""
    return [sys.executable, "-m", "hedgerow.cli", *arguments, "--format", "json"]


def here(*arguments: str) -> None:
    """Run a short command in this process, which is quicker."""
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def free_ports() -> int:
    """Return a port from which on all ports of three servers are free."""
    while True:
        # Below the ports that outgoing connections are given.
        first = 28_000 + 30 * secrets.randbelow(130)
        with contextlib.ExitStack() as stack:
            try:
                for port in (first + 10 * i + j for i in range(3) for j in range(2)):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first


def write(path: Path, columns: dict[str, Iterable[Any]]) -> str:
    """Write a table as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(path)


def tables(root: Path, X: np.ndarray, y: np.ndarray, asked: np.ndarray, domain: Domain) -> None:
    """Write what each party has: half of the columns each, in an order of its own, and no rows."""
    names, half = list(domain.names), len(domain.names) // 2
    rng = np.random.default_rng(0)
    ids = [f"patient-{k}" for k in range(len(X))]
    for owner, part in zip(OWNERS, (names[:half], names[half:]), strict=True):
        order = rng.permutation(len(X))
        columns: dict[str, Iterable[Any]] = {"id": [ids[k] for k in order]}
        columns |= {name: X[order, names.index(name)] for name in part}
        if owner == OWNERS[0]:
            columns["diagnosis"] = y[order]
        write(root / f"{owner}.csv", columns)
    write(root / "rows.csv", dict(zip(names, asked.T, strict=True)))
    (root / "job.toml").write_text(JOB)
    (root / "domain.toml").write_text(DOMAIN.read_text())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the consortium from its foundation to the last answer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="folder to make, with all that the parties have")
    kept = parser.parse_args(arguments).keep
    if kept is not None and kept.exists():
        parser.error(f"{kept} exists: name a folder that is not there yet")
    begun = time.monotonic()
    domain = Domain.from_toml(DOMAIN)
    X, y = load_breast_cancer(return_X_y=True)
    X, asked, y, truth = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    console.print(
        f"[bold]{len(X)} patients, {X.shape[1]} measurements: the hospital north holds half of the "
        "columns and the diagnosis,[/]\n[bold]south the other half. Neither shows a row to anybody."
        "[/]\n"
    )
    with contextlib.ExitStack() as stack:
        if kept is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hedgerow-demo-"))
        else:
            folder = str(kept.absolute())
            kept.mkdir(parents=True, mode=0o700)
        demo = Demo(Path(folder))
        tables(demo.root, X, y, asked, domain)
        try:
            answers = play(demo, len(asked))
            page = Path(PAGE).absolute() if kept is None else demo.root / PAGE
            with demo.step(f"{SERVERS[0]} writes a page about it", f"hedgerow report {MODEL}"):
                here("report", MODEL, str(demo.home / SERVERS[0]), "--out", str(page), "--force")
            summary(demo, answers, (X, y, asked, truth), domain)
        finally:
            with console.status("stopping the servers ..."):
                demo.stop()
    console.print(f"\nAll of it in {time.monotonic() - begun:.0f} s.")
    console.print(
        f"All of this as a page, to open in a browser: {page}", markup=False, soft_wrap=True
    )
    console.print(next_step(kept), markup=False, soft_wrap=True)


def next_step(kept: Path | None) -> str:
    """Say what somebody who has watched may do now."""
    if kept is None:
        return (
            "\nNext: docs/tutorial/start.md has all commands for a CSV file or a database of "
            "yours;"
            "\n      `make demo KEEP=trial` leaves tables, job, keys and models in a folder to try "
            "them in."
        )
    return f"""
Kept in {kept}. Next, as its servers and its analyst:

  cd {kept}
  for server in {" ".join(SERVERS)}; do hedgerow serve wards/$server & done
  hedgerow consortium check wards/{ANALYST} --wait 60
  hedgerow models show {MODEL} wards/{ANALYST}
  hedgerow query {MODEL} rows.csv wards/{ANALYST}
  kill $(jobs -p)"""


def play(demo: Demo, n_asked: int) -> list[int]:
    """Found the consortium, upload, train and ask; return the answers."""
    root = demo.root
    with demo.step("six parties with keys and certificates", "hedgerow consortium new --study"):
        demo.found()
        here("align-key", str(root / "align.key"))
    with demo.step("three servers up, over mutual TLS", "hedgerow serve"):
        demo.start()
        demo.last(ANALYST, "consortium", "check")
    for owner in OWNERS:
        with demo.step(f"{owner} shares its columns", f"hedgerow upload {owner}.csv") as about:
            public = ["--domain", str(DOMAIN), "--population", "patients", "--id", f"{owner}-1"]
            aligned = ["--ids", "id", "--align-key", str(root / "align.key")]
            file = str(root / f"{owner}.csv")
            about["bytes"] = demo.last(owner, "upload", file, *public, *aligned)["sent"]
    with demo.step("the servers train a tree that none of them sees", "hedgerow train") as about:
        for line in demo.run(OWNERS[0], "train", str(root / "job.toml")):
            if line.get("level", -1) >= 0:
                what = f"level {min(line['level'] + 1, line['depth'])} of {line['depth']}"
                megabytes = f"{line['bytes'] / 1e6:.1f} MB among the servers"
                about["status"].update(f"the servers train: {what}, {megabytes} ...")
            about["bytes"] = line.get("bytes", 0)
    with demo.step(f"{ANALYST} asks about {n_asked} patients", f"hedgerow query {MODEL}") as about:
        before = asked_bytes(demo)
        rows = demo.last(ANALYST, "query", MODEL, str(root / "rows.csv"))["rows"]
        about["bytes"] = asked_bytes(demo) - before
    return [int(row["class"]) for row in rows]


def asked_bytes(demo: Demo) -> int:
    """Return the bytes of all queries so far, from the logs of the servers."""
    lines = [
        json.loads(line)
        for name in SERVERS
        for line in (demo.home / name / "state" / "log.jsonl").read_text().splitlines()
    ]
    return sum(x["bytes_in"] + x["bytes_out"] for x in lines if x.get("verb") == "query")


def summary(demo: Demo, answers: list[int], data: tuple[np.ndarray, ...], domain: Domain) -> None:
    """Print how good it is, what it costs, and who has learned what."""
    X, y, asked, truth = data
    models = []
    for name in SERVERS:
        with open_store(StateFolder(demo.home / name / "state")).snapshot() as made:
            models.append(made.row("models", name=MODEL))
    ledger = Ledger.from_json(models[0]["ledger"])
    with console.status("a tree without privacy, to compare ..."):
        clear = CARTClassifier(max_depth=DEPTH, domain=domain).fit(X, y)
    table = Table("tree", "who sees rows", "epsilon", "accuracy", title="On held-out patients")
    for name, who, epsilon, found in (
        ("always 'benign'", "nobody", "0", np.full_like(truth, 1)),
        ("hidden, on three servers", "each owner its own", f"{EPSILON:g}", np.array(answers)),
        ("CARTClassifier (no privacy)", "whoever trains", "none", clear.predict(asked)),
    ):
        table.add_row(name, who, epsilon, f"{np.mean(found == truth):.3f}")
    console.print(table)

    def epsilon(audience: str) -> str:
        return f"{ledger.total(audience).epsilon:.3g}"

    table = Table("party", "epsilon", "what it has learned", title="Who has learned what")
    for number, name in enumerate(SERVERS):
        record = Leakage.from_json(models[number]["leakage"], ledger)
        opened = {row["name"] for row in record.what_was_learned(f"server {number}")}
        # Orders in which slots are moved, drawn afresh, and that no upload was out of order.
        empty = {one.name for one in record.openings if one.independent is not None}
        said = ", ".join(opened - empty) or "nothing that depends on a row"
        seen = f"{said}; {len(opened & empty)} random orders and checks, names, sizes and times"
        table.add_row(f"{name}, server", epsilon(f"server {number}"), seen)
    for owner in OWNERS:
        table.add_row(f"{owner}, owner", epsilon("public"), "that the run has ended")
    classes = f"{len(answers)} classes, which follow from the noisy tree"
    table.add_row(f"{ANALYST}, analyst", epsilon("analyst"), classes)
    table.add_row("everybody else", epsilon("public"), "nothing")
    console.print(table)
    console.print("[bold]The ledger: what was released to whom, at what cost[/]")
    console.print(str(ledger), markup=False, soft_wrap=True)

    store = open_store(StateFolder(demo.home / SERVERS[0] / "state"))
    meter = read_meter(store, json.loads(models[0]["manifest"])["run"])
    assert meter is not None
    table = Table(title="Bytes and seconds")
    for name in ("step", "seconds", "sent"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for what, seconds, octets in demo.costs:
        table.add_row(what, f"{seconds:.1f}", f"{octets / 1e6:,.3f} MB" if octets else "")
    console.print(table)
    console.print(f"[dim]Training took {meter.rounds:,} rounds among the servers.[/]")


if __name__ == "__main__":
    main()
