"""Runs inside its own environment: the tree of Pivot's basic protocol in SPU, two parties.

SPU's Cheetah: two semi-honest parties, no dealer, a process each on loopback, without TLS. Written
the way it is fastest there: everything of a level at once; a party's columns and the labels stay
its own (products within one party are local); rows at or below each cut as columns, so that a
matrix product is the counts left of all cuts; one division for both sides; leaves from the counts
of the level above them. A node is always split, which spares it the rules of when to stop.

Reads a job from standard input::

    {"bins": [[[...], ...], [[...], ...]], "n_bins": b, "labels": [...], "classes": c, "depth": h}

``bins`` has the columns of either party, ``labels`` are party 0's. Prints ``levels``, the column
chosen at every node, attribute * (b - 1) + cut over all attributes, ``leaves``, their classes,
``seconds`` of the slower party from the connected link to the opened tree without compiling,
``cpu`` of both and ``mb`` that the busier one sends: each of the first tree, and of the same tree
again, for which all that SPU sets up is there.
"""

import json
import os
import re
import socket
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import jax.numpy as jnp
import numpy as np
import spu
import spu.utils.frontend as frontend
from spu import libspu
from spu.experimental import reveal

PARTIES = 2
PATIENCE_MS = 1_800_000


def level_of(splits):
    """Return the program of a level below nodes that were split by these columns (none: a root)."""

    def level(masks, *columns):
        """Masks (nodes, classes, n) of the level above to those of this level, counts and cuts."""
        if splits:
            widths = [column.shape[1] for column in columns]
            own = [(0, j) if j < widths[0] else (1, j - widths[0]) for j in splits]
            left = masks * jnp.stack([columns[i][:, j] for i, j in own])[:, None]
            masks = jnp.stack([left, masks - left], axis=1).reshape(-1, *masks.shape[1:])
        nodes, classes, n = masks.shape
        rows = masks.reshape(-1, n)
        left = jnp.concatenate([rows @ column for column in columns], axis=1)
        sides = jnp.stack([left, rows.sum(axis=1)[:, None] - left])
        sides = sides.reshape(2, nodes, classes, -1)
        squares, sizes = (sides * sides).sum(axis=2), sides.sum(axis=2)
        scores = (squares.astype(jnp.float32) / sizes.astype(jnp.float32)).sum(axis=0)
        return masks, sides, reveal(jnp.argmax(scores, axis=1))

    return level


def leaves_of(splits):
    """Return the program that opens the largest class on both sides of the last cuts."""

    def leaves(sides):
        chosen = jnp.stack([sides[:, i, :, j] for i, j in enumerate(splits)])
        return reveal(jnp.argmax(chosen, axis=2))

    return leaves


class Party:
    """One party: its runtime, and the clocks, which stand still while programs are compiled."""

    def __init__(self, rank, ports):
        self.rank = rank
        about = libspu.link.Desc()
        about.recv_timeout_ms = about.http_timeout_ms = PATIENCE_MS
        for i, port in enumerate(ports):
            about.add_party(f"party {i}", f"127.0.0.1:{port}")
        self.link = libspu.link.create_brpc(about, rank)
        settings = libspu.RuntimeConfig(
            protocol=libspu.ProtocolKind.CHEETAH, field=libspu.FieldType.FM64
        )
        settings.experimental_enable_colocated_optimization = True  # Inputs stay with their owner.
        settings.enable_pphlo_profile = True  # Prints the bytes sent.
        self.io = spu.Io(PARTIES, settings)
        self.seconds = self.cpu = 0.0
        self.shapes = {}
        self.runtime = self.timed(lambda: spu.Runtime(self.link, settings))

    def timed(self, work):
        """Begin together, and count the time."""
        self.link.barrier()
        begin, cpu = time.perf_counter(), time.process_time()
        found = work()
        self.seconds += time.perf_counter() - begin
        self.cpu += time.process_time() - cpu
        return found

    def give(self, name, owner, shape, array):
        """Give a value that only its owner has; to the other it is its shape."""
        own = np.zeros(shape, np.int32) if array is None else np.ascontiguousarray(array, np.int32)
        shares = self.io.make_shares(own, libspu.Visibility.VIS_SECRET, owner)
        self.shapes[name] = np.zeros(shape, np.int32)
        self.timed(lambda: self.runtime.set_var(name, shares[self.rank]))

    def run(self, program, inputs, outputs):
        """Compile a program, run it, and return its last output, which is public."""
        given = [self.shapes[name] for name in inputs]
        secret = [libspu.Visibility.VIS_SECRET] * len(inputs)
        code, shapes = frontend.compile(
            frontend.Kind.JAX, program, given, {}, inputs, secret, lambda _: outputs
        )
        shapes = shapes if isinstance(shapes, tuple) else (shapes,)
        found = zip(outputs, shapes, strict=True)
        self.shapes |= {name: np.zeros(each.shape, each.dtype) for name, each in found}
        self.timed(lambda: self.runtime.run(code))
        return self.io.reconstruct([self.runtime.get_var(outputs[-1])] * PARTIES).tolist()


def grow(party, job, own, labels):
    """Grow a tree; `own` are the party's columns, `labels` None at party 1."""
    n, c, cuts = job["n"], job["classes"], np.arange(job["n_bins"] - 1)
    classes = None if labels is None else np.eye(c, dtype=np.int32)[labels].T[None]
    party.give("masks", 0, (1, c, n), classes)
    for i, width in enumerate(job["widths"]):
        shape = (n, width * len(cuts))
        below = (np.array(own).T[:, :, None] <= cuts).reshape(shape) if i == party.rank else None
        party.give(f"columns {i}", i, shape, below)
    inputs = ["masks", *(f"columns {i}" for i in range(PARTIES))]
    levels = []
    for _ in range(job["depth"]):
        program = level_of(levels[-1] if levels else [])
        levels.append(party.run(program, inputs, ["masks", "sides", "cuts"]))
    leaves = party.run(leaves_of(levels[-1]), ["sides"], ["leaves"])
    return {"levels": levels, "leaves": np.ravel(leaves).tolist()}


def member(rank, ports, job, own, labels):
    """Be one party: grow the tree twice; what SPU sets up is in the first alone."""
    with tempfile.TemporaryFile("w+") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        party = Party(rank, ports)
        trees, marks = [], [(0.0, 0.0, 0)]
        for _ in range(2):
            trees.append(grow(party, job, own, labels))
            said.seek(0)
            sent = map(int, re.findall(r"Link details: total send bytes (\d+)", said.read()))
            marks.append((party.seconds, party.cpu, sum(sent)))
        party.link.stop_link()
    if trees[0] != trees[1]:
        raise SystemExit(f"two trees of one table: {trees}")
    return trees[0], np.diff(marks, axis=0) / (1, 1, 1e6)


def free_ports():
    """Return a free port for each party."""
    doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(PARTIES)]
    ports = [door.getsockname()[1] for door in doors]
    for door in doors:
        door.close()
    return ports


def main() -> None:
    """Start the parties, each with what is its own, and print what they found."""
    job = json.load(sys.stdin)
    bins, labels = job.pop("bins"), job.pop("labels")
    job |= {"n": len(labels), "widths": list(map(len, bins))}
    ports = free_ports()
    with ProcessPoolExecutor(PARTIES, get_context("spawn")) as pool:
        asked = [
            pool.submit(member, i, ports, job, bins[i], None if i else labels)
            for i in range(PARTIES)
        ]
        (tree, first), (other, second) = (each.result() for each in asked)
    if tree != other:
        raise SystemExit("the parties disagree about the tree")
    most, both = np.maximum(first, second), first + second
    found = {"seconds": most[:, 0], "cpu": both[:, 1], "mb": most[:, 2]}
    print(json.dumps(tree | {name: each.tolist() for name, each in found.items()}))


if __name__ == "__main__":
    main()
