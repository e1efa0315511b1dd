"""Write a set of known answers: ``python -m tests.vectors.make FOLDER [NAME ...]``.

Only for a new version of a format, whose names may follow; see README.md. Nothing here is secret:
keys are constants.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hedgerow import (
    Attribute,
    CARTClassifier,
    Domain,
    DPBoostingClassifier,
    DPTreeClassifier,
    Ledger,
    MedianForestRegressor,
    Target,
)
from hedgerow.crypto.commutative import Curve25519Cipher
from hedgerow.crypto.oblivious_transfer import (
    Receiver,
    Sender,
    SenderTrees,
    path_bits,
    receive_random,
    send_random,
)
from hedgerow.crypto.oblivious_transfer.hashing import TweakableHash
from hedgerow.crypto.prg import Prg
from hedgerow.crypto.sealed import SealingKey, seal
from hedgerow.estimators.account import Account
from hedgerow.net.certificates import make_identity
from hedgerow.net.frames import FrameKind, Header, plan_digest
from hedgerow.net.network import Route
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.manifests import UploadManifest
from hedgerow.parties.store.models import ModelManifest, write_model
from hedgerow.parties.store.trail import CHARGE, TrailEntry, next_entry
from hedgerow.parties.store.vault import write_arrays
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.topdown.wire import Ask, TopDownAnswer
from hedgerow.protocols.vertical_id3.messages import PassSet, Sum, to_bytes
from hedgerow.tables.ids import id_tags, key_check
from tests.parties.store.old_journals import write_journal

KEY = bytes(range(32))
ABOUT = {"server": "alder", "kind": "upload", "number": 7}
PURPOSE = "vector"
KNOWN = np.array([3, 1 << 20])


def stream(label: str) -> Callable[[int], bytes]:
    """Return a source of public bytes in the place of the operating system's."""

    def draw(n: int) -> bytes:
        return hashlib.shake_256(label.encode()).digest(n)

    return draw


def flipped(data: bytes, at: int) -> bytes:
    """Return the bytes with one bit changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def tampered(data: bytes, *changes: tuple[int, str]) -> list[dict[str, str]]:
    """Return the bytes with a bit changed at each place, and the error that this ends in."""
    return [{"hex": flipped(data, at).hex(), "error": error} for at, error in changes]


def frames() -> dict[str, Any]:
    header = Header(FrameKind.DATA, 2, bytes(range(16)), 41, bytes(range(16, 32)), 1 << 33)
    packed = header.pack()
    routes = [Route(0, 1, (3, 4), "uint64"), Route(2, 0, (), "uint8")]
    return {
        "header": {
            "kind": int(header.kind),
            "sender": header.sender,
            "session": header.session.hex(),
            "sequence": header.sequence,
            "digest": header.digest.hex(),
            "length": header.length,
            "hex": packed.hex(),
        },
        "step": {
            "name": "multiply",
            "routes": [[r.source, r.destination, list(r.shape), r.dtype] for r in routes],
            "agreed": "level 3",
            "digest": plan_digest("multiply", routes, "level 3").hex(),
        },
        "tampered": tampered(packed, (0, "BAD_FRAME"), (4, "WRONG_VERSION")),
    }


def tags() -> dict[str, Any]:
    """What owners of columns compute alike, and the manifest that tells of it."""
    texts = ["7", "007", "p-7", "é", "-12"]
    manifest = UploadManifest(
        version=3,
        id="north-1",
        population="patients",
        owner="north",
        rows=70,
        seeds=("0" * 64, "1" * 64),
        correction="2" * 64,
        alignment=key_check(KEY),
        ids="text",
        domain=Domain(
            attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=4),),
            target=Target(name="ill", classes=("no", "yes")),
        ),
    )
    return {
        "key": KEY.hex(),
        "check": key_check(KEY),
        "texts": dict(zip(texts, (t.hex() for t in _tags(np.array(texts))), strict=True)),
        "numbers": {str(n): _tags(np.array([n]))[0].hex() for n in (7, -12, 1 << 62)},
        "manifest": manifest.to_json(),
        "digest": manifest.digest,
    }


def _tags(ids: np.ndarray) -> list[bytes]:
    return [tag.tobytes() for tag in id_tags(KEY, ids)]


def prg() -> dict[str, Any]:
    words = Prg(KEY[:16])
    return {
        "key": KEY[:16].hex(),
        "streams": [
            {"address": address, "dtype": dtype, "words": words.fill(address, 5, dtype).tolist()}
            for address in ("session/1/mask", "é")
            for dtype in ("uint8", "uint16", "uint32", "uint64")
        ],
    }


def cipher() -> dict[str, Any]:
    curve = Curve25519Cipher()
    messages = ["Ann", "Bob", ""]
    points = curve.hash([text.encode() for text in messages], PURPOSE)
    first, second = (curve.new_key(stream(label)) for label in ("first", "second"))
    once = curve.encrypt(first, points)
    return {
        "messages": messages,
        "purpose": PURPOSE,
        "keys": [key.secret.hex() for key in (first, second)],
        "hashed": points.tobytes().hex(),
        "once": once.tobytes().hex(),
        "twice": curve.encrypt(second, once).tobytes().hex(),
        # Not below the prime, of small order, and on the twist.
        "tampered": [
            {"hex": "ff" * 32, "error": "BAD_ELEMENT"},
            {"hex": "01" + "00" * 31, "error": "BAD_ELEMENT"},
            {"hex": "02" + "00" * 31, "error": "BAD_ELEMENT"},
        ],
    }


def transfers() -> dict[str, Any]:
    hashed = TweakableHash(KEY[:16])(np.arange(8, dtype=np.uint64).reshape(2, 2, 2), 9, 7, KNOWN)
    sender, receiver = transfer_pair()
    points, first = receiver.begin(), sender.begin()
    planted = receiver.plant(first)
    sender.finish(points, planted)
    choices = [1, 0, 0, 1, 1]
    message, received = receiver.extend(np.array(choices), 6)
    sent = sender.extend(message, len(choices), 6)
    index = [0, 4, 2]
    tree_message, tree_rows = receiver.extend(path_bits(np.array(index), 5), 1 << 60)
    trees, corrections = SenderTrees.send(sender.extend(tree_message, len(tree_rows), 1 << 60), 5)
    end = message.size - 1
    return {
        "hash": {"key": KEY[:16].hex(), "hex": hashed.astype("<u8").tobytes().hex()},
        "set-up": {
            "sender": {"sha256": hashlib.sha256(first).hexdigest()},
            "receiver": {"sha256": hashlib.sha256(points).hexdigest()},
            "trees": {"sha256": hashlib.sha256(planted).hexdigest()},
        },
        "choices": choices,
        "hex": message.tobytes().hex(),
        "keys": send_random(sent).astype("<u8").tobytes().hex(),
        "chosen": receive_random(received).astype("<u8").tobytes().hex(),
        "index": index,
        "corrections": corrections.astype("<u8").tobytes().hex(),
        "seeds": trees.seeds().astype("<u8").tobytes().hex(),
        "tampered": [
            *tampered(message.tobytes(), *((at, "TRANSFER_CHECK_FAILED") for at in (0, end))),
            {"hex": message.tobytes()[:-1].hex(), "error": "BAD_TRANSFER_MESSAGE"},
        ],
    }


def transfer_pair() -> tuple[Sender, Receiver]:
    """Return both sides of oblivious transfers before their set-up, with public randomness."""
    draws = (count(), count())

    def drawn(side: int) -> Callable[[int], bytes]:
        return lambda n: stream(f"transfer/{side}/{next(draws[side])}")(n)

    return Sender(PURPOSE.encode(), (2, 1), drawn(0)), Receiver(PURPOSE.encode(), (2, 1), drawn(1))


def sealed() -> dict[str, Any]:
    key = SealingKey(KEY)
    message, context = b"twelve beds", b"run 1, owner north"
    closed = seal(message, key.public, context, entropy=stream("sealed"))
    end = len(closed) - 1
    return {
        "secret": KEY.hex(),
        "public": key.public.hex(),
        "context": context.decode(),
        "message": message.decode(),
        "hex": closed.hex(),
        "tampered": tampered(closed, *((at, "SEALED_REFUSED") for at in (0, 5, 33, end))),
    }


def vault(folder: Path) -> dict[str, Any]:
    arrays = {
        "shares": np.arange(6, dtype=np.uint32).reshape(2, 3),
        "bits": np.array([True, False, True]),
        "none": np.zeros((0, 4), dtype=np.float64),
    }
    path = folder / "shares.vault"
    write_arrays(path, arrays, KEY, about=ABOUT)
    data = path.read_bytes()
    path.unlink()
    return {
        "key": KEY.hex(),
        "about": ABOUT,
        "arrays": {
            name: {"dtype": array.dtype.name, "shape": array.shape, "values": array.tolist()}
            for name, array in arrays.items()
        },
        "hex": data.hex(),
        "tampered": [
            *tampered(
                data, (0, "NOT_A_VAULT"), (80, "VAULT_DAMAGED"), (len(data) - 1, "VAULT_DAMAGED")
            ),
            {"hex": data[:-1].hex(), "error": "VAULT_TRUNCATED"},
        ],
    }


def journal(folder: Path) -> dict[str, Any]:
    path = folder / "journal"
    entries = [{"charged": 0.5, "to": "é"}, {"n": 2}, {"list": [1, None, "x"]}]
    write_journal(path, {"population": "patients"}, *entries)
    data = path.read_bytes()
    path.unlink()
    lines = data.splitlines(keepends=True)
    return {
        "about": {"population": "patients"},
        "entries": entries,
        "hex": data.hex(),
        "tampered": [
            {"hex": data.replace(b"0.5", b"0.4").hex(), "error": "JOURNAL_DAMAGED"},
            {"hex": b"".join([lines[0], *lines[2:]]).hex(), "error": "JOURNAL_DAMAGED"},
        ],
    }


CHARGES = [
    {"key": "a" * 64, "epsilon": 0.5, "delta": 1e-12, "what": "run é", "time": 1700000000.25},
    {"key": "job:b", "epsilon": "inf", "delta": 0.0, "what": "", "time": 1700000001.0},
    {"key": "topdown:c", "epsilon": 0.1, "delta": 0.0, "what": "x", "time": 1700000002.0},
]


def accounts(folder: Path) -> dict[str, Any]:
    """Return an account as a journal, which is how parties kept it before they had a store."""
    path = folder / "patients.jsonl"
    write_journal(path, {"kind": "account", "population": "patients"}, *CHARGES)
    data = path.read_bytes()
    path.unlink()
    lines = data.splitlines(keepends=True)
    return {
        "population": "patients",
        "charges": [charge | {"key": f"job:{charge['key']}"} for charge in CHARGES[:1]]
        + CHARGES[1:],
        "hex": data.hex(),
        "tampered": [
            {"hex": data.replace(b"0.5", b"0.4").hex(), "error": "JOURNAL_DAMAGED"},
            {"hex": b"".join([lines[0], *lines[2:]]).hex(), "error": "JOURNAL_DAMAGED"},
            {"hex": data.replace(b"patients", b"visitors").hex(), "error": "JOURNAL_DAMAGED"},
        ],
    }


def trail(folder: Path) -> dict[str, Any]:
    signer = make_identity(folder, "north")
    entries = [next_entry(None, "key", {"certificate": signer.pem}, signer, 1700000000.0)]
    for i, charge in enumerate(CHARGES):
        figures = {name: value for name, value in charge.items() if name != "time"}
        told = {"population": "patients", **figures, "charged": charge["time"]}
        entries.append(next_entry(entries[-1], CHARGE, told, signer, 1700000010.5 + i))
    a, b, c, d = (written(entry) for entry in entries)
    key = serialization.load_pem_private_key(signer.key.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    signer.key.unlink()
    signer.certificate.unlink()
    return {
        "key": key.private_bytes_raw().hex(),
        "certificate": entries[0].fields()["certificate"],
        "entries": [a, b, c, d],
        "tampered": {
            "changed": [a, b | {"body": b["body"].replace("0.5", "0.4")}, c, d],
            "dropped": [a, b, d],
            "moved": [a, c, b, d],
            "another signature": [a, b, c, d | {"signature": c["signature"]}],
            "no signature": [a, b, c, d | {"signature": ""}],
        },
    }


def written(entry: TrailEntry) -> dict[str, Any]:
    """Return an entry of a trail as the vectors have it."""
    found = {"hash": entry.hash.hex(), "signature": entry.signature.hex()}
    return {"n": entry.n, "kind": entry.kind, "body": entry.body, **found}


def messages() -> dict[str, Any]:
    ask = Ask("ab" * 16, 3, "nodes", ((0, 4), (1, 9)), (2, 3), ((1, 2), (5,)))
    counts = np.array([[1, -2], [3, 4]], dtype=np.int64)
    answer = TopDownAnswer("ab" * 16, 3, (2, 3), {"counts": counts})
    passed = PassSet(5, 1, 7, (0, 2, 1), 2, 1, (b"\x01" * 32, b""))
    total = Sum(5, (0, 1, 2), 123)
    return {
        "topdown ask": ask.to_bytes().hex(),
        "topdown answer": answer.to_bytes().hex(),
        "site set": to_bytes(passed).hex(),
        "site sum": to_bytes(total).hex(),
        "tampered": {
            "topdown ask": [{"hex": ask.to_bytes()[:-3].hex(), "error": "BAD_ASK"}],
            "topdown answer": [{"hex": answer.to_bytes()[:-1].hex(), "error": "BAD_ANSWER"}],
            "site set": [
                {"hex": to_bytes(passed)[:-1].hex(), "error": "BAD_SITE_MESSAGE"},
                {"hex": flipped(to_bytes(passed), 2).hex(), "error": "BAD_SITE_MESSAGE"},
            ],
        },
    }


def table(n: int = 120) -> tuple[Any, Any, Any]:
    """Return a table that anybody can compute: attributes, classes, numbers."""
    k = np.arange(n)
    x = np.stack([(k * 37 % 101) / 101, (k * 53 % 97) / 97], axis=1)
    return x, np.where(x[:, 0] + x[:, 1] > 1, "yes", "no"), x[:, 0] - x[:, 1]


def domain(kind: str = "classes") -> Domain:
    """Return the public domain of that table."""
    target = Target(name="y", classes=("no", "yes"))
    if kind == "numbers":
        target = Target(name="y", bounds=(-1.0, 1.0))
    attributes = tuple(
        Attribute(name=f"x{i}", kind="numeric", bounds=(0.0, 1.0), bins=8) for i in range(2)
    )
    return Domain(attributes=attributes, target=target, capacity=200)


def models(folder: Path) -> dict[str, Any]:
    x, y, z = table()
    fitted = {
        "tree": CARTClassifier(domain=domain(), max_depth=3).fit(x, y),
        "private tree": DPTreeClassifier(4.0, domain(), max_depth=2).fit(x, y),
        "forest": MedianForestRegressor(8.0, domain("numbers"), n_estimators=3).fit(x, z),
        "boosted": DPBoostingClassifier(8.0, domain(), n_estimators=5).fit(x, y),
    }
    found = {}
    for name, model in fitted.items():
        ledger = model.privacy_.to_json() if hasattr(model, "privacy_") else None
        public = next(
            getattr(model, at) for at in ("tree_", "forest_", "boosted_") if hasattr(model, at)
        )
        found[name] = {
            "file": public.to_json(privacy=None if ledger is None else json.loads(ledger)),
            "answers": model.predict(x[:10]).tolist(),
            "ledger": ledger,
        }
    account = folder / "account.json"
    kept = Account.new(account, 10.0)
    DPTreeClassifier(4.0, domain(), max_depth=2, account=kept).fit(x, y)
    text = account.read_text()
    account.unlink()
    return {"models": found, "account": text}


JOBS = {
    "trees": {"protocol": "hidden-tree", "plan": {"epsilon": 1.0, "max_depth": 2}},
    "votes": {
        "protocol": "hidden-tree",
        "plan": {"noise": "votes", "epsilon": 1.0, "n_trees": 5, "queries": 9},
    },
    "open": {"protocol": "open-tree", "plan": {"epsilon": 1.0, "leaf_release": "labels"}},
    "regression": {"protocol": "hidden-regression", "plan": {"epsilon": 2.0, "sum_share": 0.25}},
    "boosting": {"protocol": "hidden-boosting", "plan": {"epsilon": 2.0, "n_rounds": 3}},
}
TOPDOWN = {
    "name": "wards",
    "protocol": "topdown",
    "population": "patients",
    "owners": ["north", "south"],
    "plan": {"epsilon": 1.0, "method": "noisy-counts", "n_splits": 4, "max_depth": 3},
}
SITES = {
    "name": "tennis",
    "protocol": "vertical-id3",
    "population": "players",
    "sites": ["club", "office", "weather"],
    "class_at": "office",
    "classes": ["no", "yes"],
    "max_depth": 3,
    "epsilon": 2.0,
}


def jobs() -> dict[str, Any]:
    from hedgerow.parties.runs.jobs import ServerJob
    from hedgerow.parties.topdown.job import TopDownJob
    from hedgerow.parties.vertical.job import VerticalJob

    common = {
        "name": "readmission",
        "model": "readmission-1",
        "population": "patients",
        "uploads": ["north-1", "south-1"],
        "analysts": ["zoe"],
    }
    made: dict[str, Any] = {}
    for name, own in JOBS.items():
        target = "numbers" if name == "regression" else "classes"
        made[name] = ServerJob.model_validate(common | own | {"domain": domain(target).to_dict()})
    made["topdown"] = TopDownJob.model_validate(TOPDOWN | {"domain": domain().to_dict()})
    made["sites"] = VerticalJob.model_validate(SITES)
    return {
        name: {"file": job.to_toml(), "hash": job.hash, "run": job.run_id}
        for name, job in made.items()
    }


def kept_models(folder: Path) -> dict[str, Any]:
    """Return a model as a server keeps it: a row of its store, and shares that are bound to it."""
    state = StateFolder(folder / "state")
    manifest = ModelManifest(
        name="readmission-1",
        protocol="hidden-tree",
        server=1,
        plan=plan_hidden(domain(), noise="none", depth=1).to_dict(),
        run="readmission-f47854d5ac8a",
        job="f4" * 32,
        tag="cd" * 32,
        populations=("patients",),
        analysts=("zoe",),
    )
    shares = {"splits": np.arange(8, dtype=np.uint16).reshape(1, 2, 2, 2)}
    write_model(state, KEY, manifest, shares, ledger=Ledger().to_json(), leakage="{}")
    with open_store(state).snapshot() as made:
        row = made.row("models", name="readmission-1")
    data = state.path("models", "readmission-1", "shares.bin").read_bytes()
    shutil.rmtree(state.root)
    return {
        "key": KEY.hex(),
        "row": dict(row),
        "protocol": "hidden-tree",
        "splits": shares["splits"].tolist(),
        "shares": data.hex(),
    }


SETS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "frames": lambda folder: frames(),
    "prg": lambda folder: prg(),
    "tags": lambda folder: tags(),
    "cipher": lambda folder: cipher(),
    "sealed": lambda folder: sealed(),
    "transfers": lambda folder: transfers(),
    "vault": vault,
    "journal": journal,
    "accounts": accounts,
    "trail": trail,
    "messages": lambda folder: messages(),
    "models": models,
    "jobs": lambda folder: jobs(),
    "kept-models": kept_models,
}


def main(folder: Path, *names: str) -> None:
    """Write all of them, or those."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or SETS:
        text = json.dumps(SETS[name](folder), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
