"""What a server shows of its runs, budgets and keys, and to whom."""

import ssl
from pathlib import Path

import pytest

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.roles.daemon import Daemon
from hedgerow.parties.wire.client import call
from tests.parties.consortia import found, introduce
from tests.parties.free_ports import free_ports
from tests.parties.runs.run_servers import job
from tests.parties.store.test_uploads import Dealer
from tests.parties.wire.parties_calls import RawLine
from tests.parties.wire.test_service import get


def numbers_of(birch: PartyConfig, by: PartyConfig) -> dict[str, float]:
    line = RawLine((birch.me.host, birch.me.port), by.identity, birch.identity.pem)
    line.send(b"GET /metrics HTTP/1.1\r\nHost: birch\r\n\r\n")
    status, headers, body = line.reply()
    line.close()
    assert (status, headers["content-type"][:10]) == (200, "text/plain")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_numbers_of_a_server(tmp_path: Path) -> None:
    parties = found(tmp_path, first_port=free_ports())
    introduce(parties)
    birch, north = parties["birch"], parties["north"]
    policy = birch.folder / "policy.toml"
    address = (birch.me.host, birch.me.port)
    with Daemon(birch, Policy.load(birch.folder)) as daemon:
        before = numbers_of(birch, north)
        fields, payload = Dealer("ward-1").payload(1)
        made = job("mine", uploads=["ward-1"], plan={"noise": "splits+leaves", "epsilon": 1.0})
        asked = (address, north.identity, birch.identity.pem)
        call(*asked, "upload", fields, payload)
        call(*asked, "job", {}, made.to_toml().encode())
        daemon.runs.accounts.charge("patients", "job:" + "0" * 64, 0.25)
        after = numbers_of(birch, parties["zoe"])
        with pytest.raises(ssl.SSLError):
            get(address, "/metrics")
        policy.write_text(policy.read_text().replace("open_metrics = false", "open_metrics = true"))
        assert daemon.reload()
        assert get(address, "/metrics") == 200
    states = {name: value for name, value in after.items() if name.startswith("hedgerow_runs{")}
    assert states.pop('hedgerow_runs{state="accepted"}') == 1
    assert set(states.values()) == {0}
    assert {before[name] for name in (*states, 'hedgerow_runs{state="accepted"}')} == {0}
    assert after[f'hedgerow_run_attempt{{run="{made.run_id}"}}'] == 0
    left = 'hedgerow_epsilon_left{population="patients"}'
    assert before[left] - after[left] == 0.25
    assert 3000 < after['hedgerow_certificate_days{party="birch"}'] < 3651
    assert after['hedgerow_requests_total{verb="upload",outcome="ok"}'] == 1
    assert after['hedgerow_request_bytes_total{way="in"}'] >= len(payload)
