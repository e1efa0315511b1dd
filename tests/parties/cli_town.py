"""A consortium on this machine that is run through the command line alone, for tests."""

import json
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.parties.forks import Program, run_command
from tests.parties.free_ports import free_ports

SERVERS, OWNERS, ANALYST = ("alder", "birch", "cedar"), ("north", "south"), "zoe"
PARTIES = (*SERVERS, *OWNERS, ANALYST)
PATIENCE = 240.0


class CliTown:
    """Folders of the parties, each the working folder of its commands; servers as processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "wards"
        self.daemons: dict[str, Program] = {}

    def hedgerow(self, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess:
        """Run a command, with JSON as its output."""
        return run_command((*arguments, "--format", "json"), cwd or self.root, PATIENCE)

    def by(self, party: str, *arguments: object) -> list[dict[str, Any]]:
        """Run the program at a party; it must end well. The lines that it has printed."""
        done = self.hedgerow(*arguments, cwd=self.home / party)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr, self.logs())
        return [json.loads(line) for line in done.stdout.splitlines()]

    def refused(self, party: str, *arguments: object) -> str:
        """Run the program at a party, which is refused; the number of the error."""
        done = self.hedgerow(*arguments, cwd=self.home / party)
        assert done.returncode == 2, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return str(json.loads(done.stdout.splitlines()[-1])["error"])

    def found(self) -> None:
        """Make the folders and all keys, and exchange all certificates in one bundle."""
        names = ("--servers", ",".join(SERVERS), "--owners", ",".join(OWNERS))
        done = self.hedgerow(
            *("consortium", "new", "wards", *names, "--analysts", ANALYST),
            *("--first-port", free_ports(), "--populations", "patients=3"),
        )
        assert done.returncode == 0, done.stderr
        collected = self.root / "collected"
        collected.mkdir()
        for party in PARTIES:
            self.by(party, "keys", "-o", collected)
        sent = self.root / "bundle.json"
        (made,) = self.by(SERVERS[0], "consortium", "bundle", collected, "-o", sent)
        for party in PARTIES:
            self.by(party, "consortium", "add", sent, "--expect", made["digest"])

    def start(self, *names: str) -> None:
        """Start servers and wait until they take requests."""
        printed = {name: self.root / f"{name}.out" for name in names or SERVERS}
        for name, path in printed.items():
            path.unlink(missing_ok=True)
            arguments = ["serve", str(self.home / name), "--format", "json"]
            self.daemons[name] = Program(arguments, path, {})
        end = time.monotonic() + PATIENCE
        for name, path in printed.items():
            while not path.exists() or b'"serving"' not in path.read_bytes():
                assert self.daemons[name].poll() is None, self.logs()
                assert time.monotonic() < end, self.logs()
                time.sleep(0.05)

    def stop(self, *names: str) -> list[int | None]:
        """Tell servers to stop, and wait until they have; their exit codes."""
        daemons = [self.daemons.pop(name) for name in names or tuple(self.daemons)]
        for daemon in daemons:
            daemon.send_signal(signal.SIGTERM)
        for daemon in daemons:
            daemon.wait(60)
        codes = [daemon.poll() for daemon in daemons]
        for daemon in daemons:
            daemon.end()
        return codes

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return the log of a server."""
        text = (self.home / name / "state" / "log.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def logs(self) -> str:
        """Return the ends of all logs, for a test that has failed."""
        paths = self.home.glob("*/state/log.jsonl")
        return "\n".join(f"{path}: {path.read_text()[-2000:]}" for path in paths)


@contextmanager
def cli_town(root: Path):
    """Yield a consortium that is founded and whose servers are up."""
    town = CliTown(root)
    try:
        town.found()
        town.start()
        yield town
    finally:
        town.stop()
