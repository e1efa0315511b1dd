"""Runs inside its own environment: a hidden ID3 tree with MPyC, written as its paper has it.

Paper 000's algorithms 1 to 3 with the noise off, line by line: recursion node by node, MAX for each
attribute, argmax, Indicator by tests for equality, the chosen encoding by dot products with it. In
the manner of MPyC's own ID3 demonstration: lists of secure integers, its `matrix_prod` for dot
products that belong together (three times as fast as `in_prod` for each), `schur_prod` for
products of vectors, and one subtree after the other (somewhat faster than all at once). The same
tree written for speed, level by level, is in ``mpyc_id3.py``, which also describes the job and
what is printed. Here a tree of depth 1 warms up.
"""

import json
import os
import statistics
import time

from mpyc_id3 import in_the_clear, start

Tree = list  # [k, [trees]], or [class] for a leaf


def max_score(encoding: list, classes: list) -> object:
    """Algorithm 2, MAX: for each value, the count of the class most frequent with it, summed up."""
    from mpyc.runtime import mpc

    counts = mpc.matrix_prod(encoding, classes, True)
    return mpc.sum([mpc.max(of_value) for of_value in counts])


def indicator(m: int, k: object) -> list:
    """Algorithm 3, Indicator: the index as a vector, by m tests for equality."""
    return [k == i for i in range(m)]


async def id3(table: list, labels: list, inside: list, free: list, depth: int) -> Tree:
    """Algorithm 1: table[i][v] is value v of attribute i for every row, labels[c] class c.

    `inside` is T, the rows of this node, and `free` R, the attributes not used above it.
    """
    from mpyc.runtime import mpc

    classes = [mpc.schur_prod(label, inside) for label in labels]
    if depth == 0:
        label = mpc.argmax([mpc.sum(rows) for rows in classes])[0]
        await mpc.gather(label)
        return [label]
    scores = mpc.schur_prod([max_score(encoding, classes) for encoding in table], free)
    chosen = indicator(len(table), mpc.argmax(scores)[0])
    trees = []
    for value in range(len(table[0])):
        # Dot products over the attributes, one for each row.
        column = mpc.matrix_prod([chosen], [encoding[value] for encoding in table])[0]
        below = mpc.schur_prod(inside, column)
        trees.append(await id3(table, labels, below, mpc.vector_sub(free, chosen), depth - 1))
    return [chosen, trees]


def levels_of(tree: Tree, depth: int) -> tuple[list, list]:
    """Return the choices of each level, and the classes of the leaves, in tree order."""
    choices, nodes = [], [tree]
    for _ in range(depth):
        choices.append([node[0] for node in nodes])
        nodes = [child for node in nodes for child in node[1]]
    return choices, [node[0] for node in nodes]


async def party() -> None:
    """Run as one of the parties; party 0 has the table and shares it."""
    import numpy as np
    from mpyc.runtime import mpc

    job = json.loads(os.environ["HEDGEROW_BENCH_JOB"])
    w, depth = job["values"], job["depth"]
    with np.load(job["table"]) as file:
        onehot, columns = file["onehot"].astype(int), file["columns"].astype(int)
    m = onehot.shape[1] // w
    await mpc.start()
    secint = mpc.SecInt(job["bits"])

    def share(vectors: object) -> list:
        return [mpc.input([secint(int(x)) for x in vector], senders=0) for vector in vectors]

    def sent() -> int:
        return sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)

    encodings, labels = share(onehot.T), share(columns.T)
    inside = share([columns.any(axis=1)])[0]
    table = [encodings[i * w : i * w + w] for i in range(m)]
    await mpc.gather(encodings, labels, inside)
    await id3(table, labels, inside, [secint(1)] * m, 1)
    seconds, sizes = [], []
    for _ in range(job["repeats"]):
        # An opening brings the parties together; MPyC's barrier waits for one's own work alone.
        await mpc.output(secint(0))
        begin, before = time.perf_counter(), sent()
        tree = await id3(table, labels, inside, [secint(1)] * m, depth)
        choices, leaves = levels_of(tree, depth)
        await mpc.gather(choices, leaves)
        seconds.append(time.perf_counter() - begin)
        sizes.append(sent() - before)
    opened = [
        [[int(x) for x in await mpc.output(node)].index(1) for node in level] for level in choices
    ]
    found = [int(label) for label in await mpc.output(leaves)]
    await mpc.shutdown()
    if mpc.pid == 0:
        if (opened, found) != in_the_clear(onehot, columns, w, depth):
            raise SystemExit("MPyC's tree differs from the one grown in the clear")
        result = {
            "seconds": statistics.median(seconds),
            "bytes": statistics.median(sizes),
            "choices": opened,
            "leaves": found,
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    if "HEDGEROW_BENCH_JOB" in os.environ:
        from mpyc.runtime import mpc

        mpc.run(party())
    else:
        start(__file__)
