"""Runs inside its own environment: a hidden ID3 tree with MPyC, three parties, no noise.

Paper 000's MPC-ID3 (its algorithms 1 to 3 with the noise off): max operator, every node of the full
w-ary tree, nothing opened. Written the way MPyC is fastest: one array per level and step, matrix
products for the counts, MPyC's own tournament for the argmax with the choice as a unit vector (no
indicator needed), one value of each attribute by subtraction, the leaves from the counts of the
level above them instead of another pass over the rows, and no waiting between the levels, so that
MPyC prepares its random bits early.

Reads a job from standard input::

    {"table": PATH, "values": w, "depth": h, "bits": 32, "repeats": 3}

The table is an .npz file with ``onehot`` (n, m * w), attribute a and value v at a * w + v, each
present row with one 1 per attribute, and ``columns`` (n, u), one 0/1 column per class, absent rows
all zero. ``bits`` is the length of the secure integers: 32 in the paper; the least that holds the
counts is the bit length of n and a sign, and is faster.

Starts itself once per party on loopback, and prints ``seconds``, from the shared table to the
shared tree without start-up, input and opening (median of the repeats after one to warm up),
``bytes``, sent by party 0 for one tree, and the opened tree: ``choices``, one list of attributes
per level, and ``leaves``, classes. A tree that differs from the one grown in the clear is an error.
"""

import json
import os
import statistics
import subprocess
import sys
import time

PARTIES = 3


def start(script: str) -> None:
    """Start the parties with the job in their environment and print what party 0 measured."""
    job = sys.stdin.read()
    done = subprocess.run(
        [sys.executable, script, f"-M{PARTIES}", "--no-log"],
        env={**os.environ, "HEDGEROW_BENCH_JOB": job},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(done.stderr[-2000:])
    print(lines[-1])


def scores_of(counts: object, m: int, w: int) -> object:
    """Sum over the values of the count of the most frequent class: (nodes, u, m * w) to (, m)."""
    from mpyc.runtime import mpc

    nodes = counts.shape[0]
    return mpc.np_sum(mpc.np_amax(counts, axis=1).reshape(nodes, m, w), axis=2)


def children_of(rows: object, chosen: object) -> object:
    """Part the rows (nodes, u, n) by the chosen attribute (nodes, w - 1, n): (nodes * w, u, n)."""
    from mpyc.runtime import mpc

    nodes, u, n = rows.shape
    w = chosen.shape[1] + 1
    parts = rows.reshape(nodes, 1, u, n) * chosen.reshape(nodes, w - 1, 1, n)
    # A row has exactly one value, so that the last value takes the rows that are left.
    rest = rows - mpc.np_sum(parts, axis=1)
    parts = mpc.np_concatenate((parts, rest.reshape(nodes, 1, u, n)), axis=1)
    return parts.reshape(nodes * w, u, n)


def grow(onehot: object, columns: object, w: int, depth: int) -> tuple[list[object], object]:
    """Grow the tree: choices (nodes, m) per level as unit vectors, classes of the leaves."""
    import numpy as np
    from mpyc.runtime import mpc

    n, bins = onehot.shape
    u, m = columns.shape[1], bins // w
    by_value = onehot.T.reshape(m, w, n)[:, : w - 1].reshape(m, (w - 1) * n)
    rows, free = columns.T.reshape(1, u, n), None
    choices = []
    for level in range(depth):
        nodes = w**level
        counts = (rows.reshape(nodes * u, n) @ onehot).reshape(nodes, u, bins)
        scores = scores_of(counts, m, w)
        if free is not None:
            scores = scores * free
        choice = mpc.np_argmax(scores, axis=1, arg_unary=True)
        choices.append(choice)
        if level < depth - 1:
            rows = children_of(rows, (choice @ by_value).reshape(nodes, w - 1, n))
            # Children of a node lie side by side.
            free = ((1 if free is None else free) - choice)[np.repeat(np.arange(nodes), w)]
    taken = counts.reshape(nodes, u, m, w) * choice.reshape(nodes, 1, m, 1)
    sizes = mpc.np_swapaxes(mpc.np_sum(taken, axis=2), 1, 2).reshape(nodes * w, u)
    return choices, mpc.np_argmax(sizes, axis=1)


def in_the_clear(onehot: object, columns: object, w: int, depth: int) -> tuple[list, list]:
    """Grow the same tree without secrets; of equal scores the first wins, as in MPyC."""
    import numpy as np

    n, bins = onehot.shape
    m = bins // w
    bin_of = onehot.reshape(n, m, w)
    rows, free = columns.T[None].astype(int), np.ones((1, m), dtype=int)
    choices = []
    for _ in range(depth):
        counts = (rows @ onehot).reshape(len(rows), -1, m, w)
        choice = (counts.max(axis=1).sum(axis=2) * free).argmax(axis=1)
        choices.append(choice.tolist())
        chosen = bin_of[:, choice].transpose(1, 2, 0)
        rows = (rows[:, None] * chosen[:, :, None]).reshape(-1, *rows.shape[1:])
        free = np.repeat(free - np.eye(m, dtype=int)[choice], w, axis=0)
    return choices, rows.sum(axis=2).argmax(axis=1).tolist()


async def party() -> None:
    """Run as one of the parties; party 0 has the table and shares it."""
    import numpy as np
    from mpyc.runtime import mpc

    job = json.loads(os.environ["HEDGEROW_BENCH_JOB"])
    w, depth = job["values"], job["depth"]
    with np.load(job["table"]) as file:
        onehot, columns = file["onehot"].astype(int), file["columns"].astype(int)
    await mpc.start()
    secint = mpc.SecInt(job["bits"])

    def share(values: object) -> object:
        # Every party needs the shape; only party 0's values count.
        return mpc.input(secint.array(values if mpc.pid == 0 else 0 * values), senders=0)

    def sent() -> int:
        return sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)

    table, classes = share(onehot), share(columns)
    await mpc.gather(table)
    await mpc.gather(classes)
    seconds, sizes = [], []
    for _ in range(1 + job["repeats"]):
        # An opening brings the parties together; MPyC's barrier waits for one's own work alone.
        await mpc.output(secint(0))
        begin, before = time.perf_counter(), sent()
        choices, leaves = grow(table, classes, w, depth)
        for shares in (*choices, leaves):
            await mpc.gather(shares)
        seconds.append(time.perf_counter() - begin)
        sizes.append(sent() - before)
    opened = [(await mpc.output(c)).astype(int).argmax(axis=1).tolist() for c in choices]
    labels = [int(label) for label in await mpc.output(leaves)]
    await mpc.shutdown()
    if mpc.pid == 0:
        if (opened, labels) != in_the_clear(onehot, columns, w, depth):
            raise SystemExit("MPyC's tree differs from the one grown in the clear")
        result = {
            "seconds": statistics.median(seconds[1:]),
            "bytes": statistics.median(sizes[1:]),
            "choices": opened,
            "leaves": labels,
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    if "HEDGEROW_BENCH_JOB" in os.environ:
        from mpyc.runtime import mpc

        mpc.run(party())
    else:
        start(__file__)
