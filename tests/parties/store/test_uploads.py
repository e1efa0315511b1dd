"""A server takes an upload once and whole, from owners alone, and keeps it encrypted."""

import json
import re
import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError, NetworkError
from hedgerow.net.simulator import Simulator
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.manifests import (
    UploadManifest,
    correction_digest,
    seed_digest,
    seeds_held,
)
from hedgerow.parties.store.uploads import (
    UploadVerbs,
    held_uploads,
    list_uploads,
    open_upload,
    read_manifest,
)
from hedgerow.parties.wire.client import Reply, call
from hedgerow.parties.wire.handlers import declared_verbs
from hedgerow.parties.wire.requests import AT_ONCE_BYTES, Body
from hedgerow.privacy import Leakage
from hedgerow.protocols.sharing.uploaded import held_table, planes_of
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import deal
from hedgerow.secure.secret import pack
from hedgerow.tables import Encoded
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, consortium, reveal, serving
from tests.parties.wire.parties_calls import RawLine, head, refuses

ROWS = 70


def table(rows: int = ROWS, seed: int = 0, domain=DOMAIN) -> Encoded:
    rng = np.random.default_rng(seed)
    bins = np.stack([rng.integers(0, n, rows) for n in domain.n_bins], axis=1)
    target = None if domain.target is None else rng.integers(0, 2, rows).astype(np.uint8)
    present = rng.random(rows) < 0.8
    return Encoded(domain, np.asfortranarray(bins, dtype=domain.dtype), target, present)


class Dealer:
    """An upload by hand, of which anything can be changed."""

    def __init__(self, id: str, of: Encoded | None = None, **changes) -> None:
        of = table() if of is None else of
        self.parts = deal(pack(planes_of(of)), xor=True)
        self.salt = secrets.token_bytes(32)
        self.changes = {
            "id": id,
            "population": "patients",
            "owner": "north",
            "rows": of.n_slots,
            "seeds": [seed_digest(id, j, self.parts[0].seeds[j]) for j in (0, 1)],
            "correction": correction_digest(id, self.salt, self.parts[1].correction),
            "domain": of.domain.model_copy(update={"capacity": None}).to_dict(),
            "version": 1,
            "alignment": "",
        } | changes

    @property
    def manifest(self) -> UploadManifest:
        return UploadManifest.model_validate(self.changes)

    def payload(self, server: int) -> tuple[dict, bytes]:
        text = json.dumps(self.changes).encode()
        data = b"".join(self.parts[server].seeds[j] for j in seeds_held(server))
        if server:
            data += self.salt + self.parts[server].correction.astype("<u8").tobytes()
        return {"id": self.changes["id"], "manifest": len(text)}, text + data


@pytest.fixture(scope="module")
def parties(tmp_path_factory) -> dict[str, PartyConfig]:
    return consortium(tmp_path_factory.mktemp("wards"))


@pytest.fixture
def send(parties):
    """Send an upload to one server as somebody."""

    def ask(verb: str, fields: dict, payload=None, server: int = 1, by: str = "north") -> Reply:
        config, other = parties[by], parties[SERVERS[server]]
        address = (other.me.host, other.me.port)
        return call(address, config.identity, other.identity.pem, verb, fields, payload, name="it")

    def upload(dealer: Dealer, server: int = 1, by: str = "north", payload=None, **fields) -> Reply:
        own, data = dealer.payload(server)
        data = data if payload is None else payload(data)
        return ask("upload", own | fields, data, server, by)

    upload.ask = ask
    with serving(parties, payload=1.0):
        yield upload


def folder(parties, id: str, server: int = 1) -> Path:
    return parties[SERVERS[server]].folder / "state" / "uploads" / id


def test_taken_kept_and_opened(parties, send) -> None:
    dealer = Dealer("good")
    for server, name in enumerate(SERVERS):
        reply = send(dealer, server).fields
        assert reply == {"server": server, "id": "good", "digest": dealer.manifest.digest}
        config = parties[name]
        manifest, dealt = open_upload(config.state, operator_key(config.folder), "good")
        assert manifest == dealer.manifest
        assert dealt.seeds == dealer.parts[server].seeds
        np.testing.assert_array_equal(dealt.correction, dealer.parts[server].correction)
        modes = [path.stat().st_mode & 0o777 for path in folder(parties, "good", server).iterdir()]
        assert modes == [0o600]
        for seed in dealt.seeds.values():
            assert seed not in (folder(parties, "good", server) / "part.vault").read_bytes()
    listed = json.loads(send.ask("uploads", {}, by="zoe").payload)["uploads"]
    assert [row["id"] for row in listed] == ["good"]
    assert listed[0]["digest"] == dealer.manifest.digest


def test_uploads_are_bounded_by_their_header(parties, send) -> None:
    """Too large, or too much of one owner, or the id of another: nothing of it is asked for."""

    def endless():
        raise AssertionError("asked for an upload that is refused")
        yield b""

    def attempt(code: Code, id: str, octets: int = 1000, by: str = "north") -> HedgerowError:
        fields = {"id": id, "manifest": 500}
        return refuses(code, lambda: send.ask("upload", fields, Body(octets, endless()), by=by))

    error = attempt(Code.POLICY_REFUSES, "large", (1 << 28) + 1)
    assert "largest_upload_bytes = 268435456" in error.expected
    # An id that begins with the name of an owner is that owner's.
    for id in ("north-1", "north", "north-2026-b"):
        error = attempt(Code.UPLOAD_ID_RESERVED, id, by="south")
        assert id in error.found
        check = {"id": id, "population": "patients"}
        refuses(
            Code.UPLOAD_ID_RESERVED,
            lambda check=check: send.ask("upload-check", check, by="south"),
        )
    send.ask("upload-check", {"id": "northern-1", "population": "patients"}, by="south")
    send(Dealer("quota"))
    attempt(Code.UPLOAD_ID_USED, "quota")
    assert not folder(parties, "large").exists()


@pytest.mark.parametrize(("name", "number"), [("alder", 0), ("birch", 1)])
def test_the_quota_of_an_owner(tmp_path, name: str, number: int) -> None:
    """Manifests count as well: all else that server 0 has of an upload are two seeds."""
    parties = consortium(tmp_path)
    server = parties[name]
    manifest = Dealer("a").manifest
    octets = len(manifest.to_json()) + manifest.payload_bytes(number)
    size = len(Dealer("a").payload(number)[1])
    path = server.folder / "policy.toml"
    line = f"upload_bytes_per_owner = {octets + size}"
    text = re.sub(r"^upload_bytes_per_owner = .*$", line, path.read_text(), flags=re.M)
    path.write_text(text)

    def upload(id: str, by: str) -> Reply:
        fields, data = Dealer(id, owner=by).payload(number)
        address = (server.me.host, server.me.port)
        return call(address, parties[by].identity, server.identity.pem, "upload", fields, data)

    with serving(parties, names=(name,)):
        upload("a", "north")
        upload("b", "north")
        error = refuses(Code.POLICY_REFUSES, lambda: upload("c", "north"))
        assert line in error.expected
        assert error.found.startswith(f"{2 * octets} bytes of this owner here")
        upload("c", "south")


def test_replays_are_refused_also_after_a_restart(parties) -> None:
    dealer, other = Dealer("replayed"), Dealer("replayed")

    def post(one: Dealer) -> None:
        fields, payload = one.payload(1)
        north, birch = parties["north"], parties["birch"]
        address = (birch.me.host, birch.me.port)
        call(address, north.identity, birch.identity.pem, "upload", fields, payload, name="birch")

    with serving(parties, names=("birch",)):
        post(dealer)
        refuses(Code.UPLOAD_ID_USED, lambda: post(dealer))
        refuses(Code.UPLOAD_ID_USED, lambda: post(other))
    with serving(parties, names=("birch",)):
        refuses(Code.UPLOAD_ID_USED, lambda: post(dealer))
        refuses(Code.UPLOAD_ID_USED, lambda: post(other))
    birch = parties["birch"]
    manifest, _ = open_upload(birch.state, operator_key(birch.folder), "replayed")
    assert manifest == dealer.manifest


def test_many_at_once_with_one_id(parties, send) -> None:
    dealers = [Dealer("race", table(seed=i)) for i in range(6)]
    taken, refused = [], []

    def post(dealer: Dealer) -> None:
        try:
            send(dealer)
            taken.append(dealer)
        except Exception as error:
            refused.append(error.code)

    threads = [threading.Thread(target=post, args=(dealer,)) for dealer in dealers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    assert set(refused) <= {Code.UPLOAD_ID_USED, Code.SERVICE_BUSY}
    assert read_manifest(parties["birch"].state, "race") == taken[0].manifest


@pytest.mark.parametrize("id", ["../escape", "a/b", "..", "", "A", "x" * 64, "a\n", "a.b", 7, None])
def test_paths_cannot_be_built(parties, send, id) -> None:
    before = sorted(parties["birch"].folder.rglob("*"))
    refuses(Code.BAD_NAME, lambda: send(Dealer("fine"), id=id))
    refuses(Code.BAD_NAME, lambda: send.ask("upload-check", {"id": id, "population": "patients"}))
    assert sorted(parties["birch"].folder.rglob("*")) == before
    if isinstance(id, str):
        refuses(Code.BAD_NAME, lambda: open_upload(parties["birch"].state, b"k" * 32, id))


def test_only_owners_and_in_their_own_name(parties, send) -> None:
    for by in ("zoe", "alder"):
        refuses(Code.CALLER_NOT_ALLOWED, lambda by=by: send(Dealer("role"), by=by))
        ask = {"id": "role", "population": "patients"}
        refuses(
            Code.CALLER_NOT_ALLOWED, lambda by=by, ask=ask: send.ask("upload-check", ask, by=by)
        )
    refuses(Code.BAD_UPLOAD, lambda: send(Dealer("role"), by="south"))
    refuses(Code.BAD_UPLOAD, lambda: send(Dealer("other"), id="role"))
    assert not folder(parties, "role").exists()


def test_what_does_not_fit_together(parties, send) -> None:
    """Nothing is kept, and the id is still free."""
    narrow = DOMAIN.select(["age", "ward"])

    def attempt(code: Code, dealer: Dealer, server: int = 1, **changes) -> None:
        refuses(code, lambda: send(dealer, server, **changes))
        assert not folder(parties, "misfit", server).exists()

    misfit = Dealer("misfit")
    # Planes of one domain under the name of another, in both directions.
    attempt(Code.BAD_UPLOAD, Dealer("misfit", domain=narrow.to_dict()))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", table(domain=narrow), domain=DOMAIN.to_dict()))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", rows=ROWS + 64))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", rows=0))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", rows=1 << 40))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", rows="70"))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", extra=1))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", correction="0" * 64))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", correction="0" * 63))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", seeds=["0" * 64, "0" * 64]))
    attempt(Code.BAD_UPLOAD, Dealer("misfit", seeds=["0" * 64, "0" * 64]), 0)
    attempt(Code.BAD_NAME, Dealer("misfit", population="../x"))
    attempt(Code.POLICY_REFUSES, Dealer("misfit", population="strangers"))
    drafted = DOMAIN.model_copy(update={"provenance": "read from data"}).to_dict()
    attempt(Code.DOMAIN_READ_FROM_DATA, Dealer("misfit", domain=drafted))
    numeric = DOMAIN.to_dict() | {"target": {"name": "ill", "bounds": [0, 1]}}
    attempt(Code.BAD_UPLOAD, Dealer("misfit", domain=numeric))
    # Planes of classes under the name of numbers.
    attempt(Code.BAD_UPLOAD, Dealer("misfit", domain=numeric, version=2))
    # Truncated, too long, changed on the way, the part of another server.
    attempt(Code.BAD_UPLOAD, misfit, payload=lambda data: data[:-1])
    attempt(Code.BAD_UPLOAD, misfit, payload=lambda data: data[:-8])
    attempt(Code.BAD_UPLOAD, misfit, payload=lambda data: data + b"x")
    attempt(Code.BAD_UPLOAD, misfit, payload=lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    attempt(Code.BAD_UPLOAD, misfit, payload=lambda data: b"{" + data[1:-1])
    attempt(Code.BAD_UPLOAD, misfit, payload=lambda data: misfit.payload(2)[1])
    attempt(Code.BAD_UPLOAD, misfit, 0, payload=lambda data: misfit.payload(1)[1])
    for length in (0, -1, 10**9):
        attempt(Code.BAD_UPLOAD, misfit, manifest=length)
    for length in ("5", None, True, 1.5):
        attempt(Code.BAD_REQUEST, misfit, manifest=length)
    attempt(Code.BAD_UPLOAD, misfit, payload=lambda data: b"")
    send(misfit)
    assert folder(parties, "misfit").exists()


def test_too_large(parties) -> None:
    """Refused by its length before it is sent."""

    def small(config: PartyConfig):
        key = operator_key(config.folder)
        keeper = UploadVerbs(config, Policy.load(config.folder), key, RunStore(config.state))
        verbs = declared_verbs(keeper)
        return verbs | {"upload": replace(verbs["upload"], largest=1 << 10)}

    with serving(parties, small, names=("birch",)):
        north, birch = parties["north"], parties["birch"]
        dealer = Dealer("large", table(1 << 20))
        fields, payload = dealer.payload(1)
        error = refuses(
            Code.PAYLOAD_TOO_LARGE,
            lambda: call(
                (birch.me.host, birch.me.port),
                north.identity,
                birch.identity.pem,
                "upload",
                fields,
                payload + bytes(1 << 20),
            ),
        )
    assert "bytes" in error.found
    assert not folder(parties, "large").exists()


def test_a_connection_that_ends_in_the_middle(parties, send) -> None:
    """What was announced never comes: nothing is kept and the id stays free."""
    north, birch = parties["north"], parties["birch"]
    # More than is read before anything is done with it.
    dealer = Dealer("cut", table(1 << 17))
    fields, payload = dealer.payload(1)
    assert len(payload) > 2 * AT_ONCE_BYTES
    line = RawLine((birch.me.host, birch.me.port), north.identity, birch.identity.pem)
    line.send(head("upload", len(payload), json.dumps(fields), Expect="100-continue"))
    assert line.reply()[0] == 100
    line.send(payload[:-100])
    # Meanwhile the owner's only place is taken.
    refuses(
        Code.SERVICE_BUSY,
        lambda: send(Dealer("meanwhile"), payload=lambda data: Body(len(data), iter([data]))),
    )
    line.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            send(dealer)
            break
        except NetworkError:
            # Until the server has noticed.
            time.sleep(0.05)
    assert folder(parties, "cut").exists()


def test_links_in_the_state_are_not_followed(parties, send, tmp_path) -> None:
    birch = parties["birch"]
    uploads, aside = birch.folder / "state/uploads", tmp_path / "aside"
    aside.mkdir(mode=0o700)
    (uploads / "planted").symlink_to(aside)
    refuses(Code.UNSAFE_FOLDER, lambda: send(Dealer("planted")))
    refuses(Code.UNSAFE_FOLDER, lambda: open_upload(birch.state, bytes(32), "planted"))
    (uploads / "planted").unlink()
    kept = birch.folder / "state/kept"
    uploads.rename(kept)
    uploads.symlink_to(aside)
    try:
        refuses(Code.UNSAFE_FOLDER, lambda: send(Dealer("linked")))
        refuses(Code.UNSAFE_FOLDER, lambda: list_uploads(birch.state))
    finally:
        uploads.unlink()
        kept.rename(uploads)
    state = birch.folder / "state"
    state.rename(tmp_path / "state")
    state.symlink_to(tmp_path / "state")
    try:
        refuses(Code.UNSAFE_FOLDER, lambda: send(Dealer("linked")))
        refuses(Code.UNSAFE_FOLDER, lambda: birch.state)
    finally:
        state.unlink()
        (tmp_path / "state").rename(state)
    assert not any(aside.iterdir())


def test_what_is_not_complete_or_was_changed(parties, send) -> None:
    birch = parties["birch"]
    key = operator_key(birch.folder)
    refuses(Code.UNKNOWN_UPLOAD, lambda: open_upload(birch.state, key, "nothing"))
    send(Dealer("damaged"))
    send(Dealer("exchanged"))
    texts = {one.id: one.to_json() for one in list_uploads(birch.state)}

    def change(manifest: str | None) -> None:
        with open_store(birch.state).transaction("change") as made:
            made.put_upload("damaged", manifest)

    # Another population, in the public part alone: the shares say otherwise.
    change(texts["damaged"].replace('"patients"', '"staff"'))
    refuses(Code.VAULT_OF_ANOTHER, lambda: open_upload(birch.state, key, "damaged"))
    change(texts["exchanged"])
    refuses(Code.BAD_UPLOAD, lambda: open_upload(birch.state, key, "damaged"))
    change(texts["damaged"])
    refuses(Code.VAULT_WRONG_KEY, lambda: open_upload(birch.state, bytes(31) + b"x", "damaged"))
    vault, other = (folder(parties, id) / "part.vault" for id in ("damaged", "exchanged"))
    good = vault.read_bytes()
    vault.write_bytes(other.read_bytes())
    refuses(Code.VAULT_OF_ANOTHER, lambda: open_upload(birch.state, key, "damaged"))
    vault.write_bytes(good[:-1])
    refuses(Code.VAULT_TRUNCATED, lambda: open_upload(birch.state, key, "damaged"))
    vault.write_bytes(good)
    open_upload(birch.state, key, "damaged")
    # As a crash between the file and its row leaves it.
    change(None)
    refuses(Code.UNKNOWN_UPLOAD, lambda: open_upload(birch.state, key, "damaged"))
    refuses(Code.UPLOAD_ID_USED, lambda: send(Dealer("damaged")))
    assert "damaged" not in [manifest.id for manifest in list_uploads(birch.state)]


def test_every_upload_is_in_the_trail(parties, send) -> None:
    dealer = Dealer("told")
    send(dealer)
    with open_store(parties["birch"].state).snapshot() as made:
        last = made.trail()[-1]
    assert (last.kind, last.fields()["id"], last.fields()["owner"]) == ("upload", "told", "north")
    assert last.fields()["digest"] == dealer.manifest.digest


def test_planes_of_a_job_in_the_order_of_its_domain(parties, send) -> None:
    """Columns stand in the order of the job, and slots that are left are empty."""
    turned = DOMAIN.select(["sex", "age", "ward"])
    one, two = table(seed=1), table(30, seed=2).select(["sex", "age", "ward"])
    assert two.domain.names == turned.names
    for dealer in (Dealer("turn-1", one), Dealer("turn-2", two, owner="south")):
        for server in range(3):
            send(dealer, server, by=dealer.manifest.owner)
    job = ServerJob.model_validate(
        {
            "name": "planes",
            "protocol": "hidden-tree",
            "model": "planes",
            "population": "patients",
            "uploads": ["turn-1", "turn-2"],
            "analysts": ["zoe"],
            "plan": {"epsilon": 1.0, "max_depth": 2, "capacity": ROWS + 30 + 7},
            "domain": DOMAIN.to_dict(),
        }
    )
    held = {
        i: [
            open_upload(parties[name].state, operator_key(parties[name].folder), upload)
            for upload in job.uploads
        ]
        for i, name in enumerate(SERVERS)
    }
    engine = ReplicatedEngine(Simulator(3), Leakage([]), insecure_seed=b"planes")
    placed = held_uploads(job, held)
    uploads = job.uploads_for([manifest for manifest, _ in held[0]])
    assert [one.upload for one in placed] == uploads
    planes = {one.upload.party: one.planes(engine) for one in placed}
    assert [(u.party, u.first, u.rows) for u in uploads] == [(3, 0, 70), (4, 70, 30), (5, 100, 7)]
    straight = two.select(["age", "ward", "sex"])
    np.testing.assert_array_equal(reveal(planes[3]), planes_of(one))
    np.testing.assert_array_equal(reveal(planes[4]), planes_of(straight))
    assert not reveal(planes[5]).any()
    plan = job.make_plan()
    made = held_table(engine, plan.layout, plan.ring, placed)
    assert made.n_rows == plan.n_slots
    present = np.concatenate([one.present, straight.present, np.zeros(7, dtype=bool)])
    np.testing.assert_array_equal(reveal(made.columns).sum(axis=1), present)
