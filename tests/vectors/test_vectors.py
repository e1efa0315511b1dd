"""Today's code against answers that were written down once; see README.md."""

import hashlib
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from hedgerow import Ledger, read_model
from hedgerow.crypto.commutative import CipherKey, Curve25519Cipher
from hedgerow.crypto.oblivious_transfer import (
    ReceiverTrees,
    SenderTrees,
    path_bits,
    receive_random,
    send_random,
)
from hedgerow.crypto.oblivious_transfer.hashing import TweakableHash
from hedgerow.crypto.prg import Prg
from hedgerow.crypto.sealed import SealingKey, seal
from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.account import Account
from hedgerow.net.certificates import Identity
from hedgerow.net.frames import FrameKind, Header, parse, plan_digest
from hedgerow.net.network import Route
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.jobs import read_job, read_kept_job
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.journal import locked_journal
from hedgerow.parties.store.manifests import UploadManifest
from hedgerow.parties.store.models import list_models, open_model
from hedgerow.parties.store.trail import CHARGE, TrailEntry, next_entry, verify
from hedgerow.parties.store.vault import read_arrays
from hedgerow.protocols.topdown.wire import Ask, TopDownAnswer
from hedgerow.protocols.vertical_id3.messages import from_bytes, to_bytes
from hedgerow.tables.ids import id_tags, key_check
from tests.vectors.make import KNOWN, stream, table, transfer_pair

V1, V2 = (Path(__file__).parent / version for version in ("v1", "v2"))
SETS = [V1]
"""Those that have every format; later ones have what has changed."""


def load(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def refuses_all(cases: list[dict[str, str]], read: Callable[[bytes], object]) -> None:
    """Each tampered version ends in its own numbered error."""
    assert cases
    for case in cases:
        with pytest.raises(HedgerowError) as refused:
            read(bytes.fromhex(case["hex"]))
        assert refused.value.code is Code[case["error"]], case


@pytest.fixture(params=SETS, ids=lambda folder: folder.name)
def vectors(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    return lambda name: load(request.param, name)


def test_frames(vectors: Callable[[str], Any]) -> None:
    found = vectors("frames")
    head, step = found["header"], found["step"]
    header = Header(
        FrameKind(head["kind"]),
        head["sender"],
        bytes.fromhex(head["session"]),
        head["sequence"],
        bytes.fromhex(head["digest"]),
        head["length"],
    )
    assert header.pack().hex() == head["hex"]
    assert parse(bytes.fromhex(head["hex"]), peer=2, step="multiply") == header
    routes = [Route(a, b, tuple(shape), dtype) for a, b, shape, dtype in step["routes"]]
    assert plan_digest(step["name"], routes, step["agreed"]).hex() == step["digest"]
    refuses_all(found["tampered"], lambda data: parse(data, peer=2, step="multiply"))


def test_streams(vectors: Callable[[str], Any]) -> None:
    found = vectors("prg")
    words = Prg(bytes.fromhex(found["key"]))
    assert len(found["streams"]) == 8
    for case in found["streams"]:
        assert words.fill(case["address"], 5, case["dtype"]).tolist() == case["words"]


def test_tags_and_the_manifests_of_columns() -> None:
    found = load(V2, "tags")
    key = bytes.fromhex(found["key"])
    assert key_check(key) == found["check"]
    for kind, cases in (("texts", np.str_), ("numbers", np.int64)):
        for text, tag in found[kind].items():
            assert id_tags(key, np.array([text]).astype(cases))[0].tobytes().hex() == tag
    assert found["texts"]["7"] == found["numbers"]["7"]
    manifest = UploadManifest.from_json(found["manifest"])
    assert (manifest.to_json(), manifest.digest) == (found["manifest"], found["digest"])
    assert manifest.alignment == found["check"]
    for one, other in (
        ('"version":3', '"version":1'),
        ('"text"', '"word"'),
        ("alignment", "align"),
    ):
        with pytest.raises(HedgerowError) as refused:
            UploadManifest.from_json(found["manifest"].replace(one, other))
        assert refused.value.code is Code.BAD_UPLOAD


def test_the_cipher_of_sites(vectors: Callable[[str], Any]) -> None:
    found = vectors("cipher")
    curve = Curve25519Cipher()
    first, second = (CipherKey(bytes.fromhex(secret)) for secret in found["keys"])
    assert curve.new_key(stream("first")).secret == first.secret
    points = curve.hash([text.encode() for text in found["messages"]], found["purpose"])
    assert points.tobytes().hex() == found["hashed"]
    assert curve.encrypt(first, points).tobytes().hex() == found["once"]
    for one, other in ((first, second), (second, first)):
        twice = curve.encrypt(other, curve.encrypt(one, points))
        assert twice.tobytes().hex() == found["twice"]
    curve.check(points, "a site")

    def check(data: bytes) -> None:
        curve.check(np.frombuffer(data, dtype=np.uint8).reshape(1, 32), "a site")

    refuses_all(found["tampered"], check)


def test_oblivious_transfers(vectors: Callable[[str], Any]) -> None:
    found = vectors("transfers")
    x = np.arange(8, dtype=np.uint64).reshape(2, 2, 2)
    made = TweakableHash(bytes.fromhex(found["hash"]["key"]))(x, 9, 7, KNOWN)
    assert made.astype("<u8").tobytes().hex() == found["hash"]["hex"]

    sender, receiver = transfer_pair()
    points, first = receiver.begin(), sender.begin()
    planted = receiver.plant(first)
    for name, said in (("sender", first), ("receiver", points), ("trees", planted)):
        assert hashlib.sha256(said).hexdigest() == found["set-up"][name]["sha256"]
    sender.finish(points, planted)

    def words(hexadecimal: str) -> NDArray[np.uint64]:
        return np.frombuffer(bytes.fromhex(hexadecimal), dtype="<u8").astype(np.uint64)

    choices, index = np.array(found["choices"]), np.array(found["index"])
    message, received = receiver.extend(choices, 6)
    assert message.tobytes().hex() == found["hex"]
    both = send_random(sender.extend(message, choices.size, 6))
    np.testing.assert_array_equal(both.ravel(), words(found["keys"]))
    np.testing.assert_array_equal(receive_random(received).ravel(), words(found["chosen"]))

    message, rows = receiver.extend(path_bits(index, 5), 1 << 60)
    trees, corrections = SenderTrees.send(sender.extend(message, len(rows), 1 << 60), 5)
    np.testing.assert_array_equal(corrections, words(found["corrections"]))
    np.testing.assert_array_equal(trees.seeds().ravel(), words(found["seeds"]))
    theirs = ReceiverTrees.receive(rows, index, 5, corrections).seeds()
    assert ((theirs == trees.seeds()).all(axis=2).sum(axis=1) == 4).all()

    def read(data: bytes) -> None:
        again, other = transfer_pair()
        points = other.begin()
        again.finish(points, other.plant(again.begin()))
        again.extend(np.frombuffer(data, dtype=np.uint8), choices.size, 6)

    refuses_all(found["tampered"], read)


def test_sealed_messages(vectors: Callable[[str], Any]) -> None:
    found = vectors("sealed")
    key = SealingKey(bytes.fromhex(found["secret"]))
    context, closed = found["context"].encode(), bytes.fromhex(found["hex"])
    assert key.public.hex() == found["public"]
    assert key.open(closed, context) == found["message"].encode()
    assert seal(found["message"].encode(), key.public, context, entropy=stream("sealed")) == closed
    refuses_all(found["tampered"], lambda data: key.open(data, context))
    refuses_all(
        [{"hex": found["hex"], "error": found["tampered"][0]["error"]}],
        lambda data: key.open(data, context + b"."),
    )


def test_vaults(vectors: Callable[[str], Any], tmp_path: Path) -> None:
    found = vectors("vault")
    key, path = bytes.fromhex(found["key"]), tmp_path / "shares.vault"

    def read(data: bytes) -> dict[str, Any]:
        path.write_bytes(data)
        return read_arrays(path, key, about=found["about"])

    arrays = read(bytes.fromhex(found["hex"]))
    assert list(arrays) == list(found["arrays"])
    for name, expected in found["arrays"].items():
        assert arrays[name].dtype == expected["dtype"]
        assert list(arrays[name].shape) == expected["shape"]
        assert arrays[name].tolist() == expected["values"]
    refuses_all(found["tampered"], read)


def test_journals(vectors: Callable[[str], Any], tmp_path: Path) -> None:
    found = vectors("journal")
    path = tmp_path / "journal"

    def read(data: bytes) -> list[Any]:
        path.write_bytes(data)
        with locked_journal(path, found["about"]) as entries:
            return entries

    assert read(bytes.fromhex(found["hex"])) == found["entries"]
    refuses_all(found["tampered"], read)


def test_accounts_of_parties(vectors: Callable[[str], Any], tmp_path: Path) -> None:
    found = vectors("accounts")

    def read(data: bytes) -> list[Any]:
        state = StateFolder(tmp_path / secrets.token_hex(8))
        (state.folder("accounts") / f"{found['population']}.jsonl").write_bytes(data)
        policy = Policy.model_construct(populations={})
        return [vars(one) for one in Accounts(state, policy).spent(found["population"]).charges]

    charges = [charge | {"epsilon": float(charge["epsilon"])} for charge in found["charges"]]
    assert read(bytes.fromhex(found["hex"])) == charges
    refuses_all(found["tampered"], read)


def test_trails(vectors: Callable[[str], Any], tmp_path: Path) -> None:
    found = vectors("trail")
    signer = Identity(tmp_path / "north.key", tmp_path / "north.pem")
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(found["key"]))
    forms = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    signer.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, *forms))
    signer.key.chmod(0o600)
    signer.certificate.write_text(found["certificate"])

    def read(entries: list[Any]) -> list[TrailEntry]:
        return [
            TrailEntry(
                e["n"], e["kind"], e["body"], *map(bytes.fromhex, (e["hash"], e["signature"]))
            )
            for e in entries
        ]

    entries = read(found["entries"])
    charges = [_charge_of(entry) for entry in entries if entry.kind == CHARGE]
    assert verify(entries, charges, found["certificate"]) == entries[-1]
    # Signatures of Ed25519 are the same each time.
    made: list[TrailEntry] = []
    for entry in entries:
        last = made[-1] if made else None
        made.append(next_entry(last, entry.kind, entry.fields(), signer, entry.time))
    assert made == entries
    assert len(found["tampered"]) == 5
    for name, changed in found["tampered"].items():
        with pytest.raises(HedgerowError) as refused:
            verify(read(changed), charges, found["certificate"])
        assert refused.value.code is Code.TRAIL_BROKEN, name


def _charge_of(entry: TrailEntry) -> dict[str, Any]:
    told = entry.fields()
    figures = {"epsilon": float(told["epsilon"]), "time": told.pop("charged")}
    return {**told, **figures, "entry": entry.n}


def test_messages(vectors: Callable[[str], Any]) -> None:
    found = vectors("messages")

    def again(data: bytes) -> bytes:
        return to_bytes(from_bytes(data, "a site"))

    readers: dict[str, Callable[[bytes], bytes]] = {
        "topdown ask": lambda data: Ask.from_bytes(data).to_bytes(),
        "topdown answer": lambda data: TopDownAnswer.from_bytes(data).to_bytes(),
        "site set": again,
        "site sum": again,
    }
    for name, read in readers.items():
        assert read(bytes.fromhex(found[name])).hex() == found[name]
    for name, cases in found["tampered"].items():
        refuses_all(cases, readers[name])


def test_models_and_their_ledgers(vectors: Callable[[str], Any], tmp_path: Path) -> None:
    x, _, _ = table()
    path = tmp_path / "model.json"
    for name, case in vectors("models")["models"].items():
        path.write_text(case["file"])
        model = read_model(path).model
        assert _answers(model, x[:10]) == pytest.approx(case["answers"]), name
        if case["ledger"] is not None:
            ledger = Ledger.from_json(case["ledger"])
            assert json.loads(ledger.to_json()) == json.loads(case["ledger"])
        path.write_text(case["file"][:-20])
        with pytest.raises(HedgerowError):
            read_model(path)
        if case["ledger"] is not None:
            with pytest.raises(HedgerowError):
                Ledger.from_json(case["ledger"].replace('"epsilon"', '"epsilom"', 1))


def _answers(model: Any, x: Any) -> list[Any]:
    from hedgerow.tables import encode

    bins = encode(x, model.domain).bins
    target = model.domain.target
    if target.classes is None:
        return [float(value) for value in model.decide(bins)[:, 0]]
    return [target.classes[place] for place in model.predict_class(bins)]


def test_accounts(vectors: Callable[[str], Any], tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    path.write_text(vectors("models")["account"])
    path.chmod(0o600)
    account = Account(path)
    assert account.spent().epsilon == pytest.approx(4.0, rel=1e-9)
    assert len(account.costs()) == 1


def test_jobs_of_the_first_version_are_refused_by_the_line_to_write() -> None:
    """Their hashes are of other words; what a party has kept of them, it reads."""
    cases = load(V1, "kept-jobs")
    assert len(cases) == 7
    for name, case in cases.items():
        kept = read_kept_job(case["file"])
        assert (kept.hash, kept.run_id) == (case["hash"], case["run"]), name
        assert kept.to_toml() == case["file"]
        with pytest.raises(HedgerowError, match="H885") as refused:
            read_job(case["file"])
        assert refused.value.expected == f'a line protocol = "{kept.protocol}"'
    cases = load(V1, "jobs")
    assert len(cases) == 7
    # Who was waited for, and how long, stood in these; a job that does not say so is another job.
    for name, words in (("topdown", "dropouts"), ("sites", "timeouts")):
        with pytest.raises(HedgerowError, match=rf"H885.*{words}"):
            read_kept_job(cases.pop(name)["file"])
    for case in cases.values():
        kept = read_kept_job(case["file"])
        assert (kept.hash, kept.run_id, kept.to_toml()) == (case["hash"], case["run"], case["file"])


def test_hashes_of_jobs() -> None:
    cases = load(V2, "jobs")
    assert len(cases) == 7
    for name, case in cases.items():
        job = read_job(case["file"])
        assert (job.hash, job.run_id) == (case["hash"], case["run"]), name
        assert job.to_toml() == case["file"]
        other = case["file"].replace("epsilon = 2.0", "epsilon = 3.0")
        other = other.replace("epsilon = 1.0", "epsilon = 3.0")
        assert read_job(other).hash != case["hash"]
        with pytest.raises(HedgerowError):
            read_job("epsilom = 1.0\n" + case["file"])


@pytest.mark.parametrize("folder", [V1, V2], ids=lambda folder: folder.name)
def test_models_at_a_server(folder: Path, tmp_path: Path) -> None:
    found = load(folder, "kept-models")
    state, key = StateFolder(tmp_path / "state"), bytes.fromhex(found["key"])
    path = state.folder("models", found["row"]["name"]) / "shares.bin"
    path.write_bytes(bytes.fromhex(found["shares"]))
    path.chmod(0o600)

    def keep(**changes: str) -> None:
        with open_store(state).transaction("a row of then") as made:
            made.put("models", found["row"] | changes)

    keep()
    (listed,) = list_models(state)
    stored = open_model(state, key, found["row"]["name"])
    assert stored.manifest == listed
    assert listed.protocol == found["protocol"]
    np.testing.assert_array_equal(stored.shares["splits"], found["splits"])
    assert stored.manifest.read_plan().depth == 1
    text = found["row"]["manifest"]
    for changed, code in (
        (text.replace("zoe", "eve"), Code.VAULT_OF_ANOTHER),
        (text.replace('"version": ', '"version": 9'), Code.MODEL_VERSION),
    ):
        keep(manifest=changed)
        with pytest.raises(HedgerowError) as refused:
            open_model(state, key, found["row"]["name"])
        assert refused.value.code is code
