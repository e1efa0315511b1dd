"""Runs inside its own environment: MPyC's NumPy-vectorised secure integers, three parties.

Reads ``{case: {size...}}`` from standard input, starts itself once per party on loopback, and
prints seconds per case. Sizes are chosen by the caller; MPyC is slow enough that the caller asks
for a part of the work and scales.
"""

import json
import os
import subprocess
import sys
import time

PARTIES = 3


def start() -> None:
    """Start the parties with the job in their environment and print what party 0 measured."""
    job = sys.stdin.read()
    done = subprocess.run(
        [sys.executable, __file__, f"-M{PARTIES}", "--no-log"],
        env={**os.environ, "HEDGEROW_BENCH_JOB": job},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(done.stderr[-2000:])
    print(lines[-1])


async def cases(job: dict[str, dict[str, int]]) -> dict[str, float]:
    """Time each case; the last output makes sure that the work is done."""
    import numpy as np
    from mpyc.runtime import mpc

    secint = mpc.SecInt(64)
    rng = np.random.default_rng(0)

    def secret(*shape: int, high: int = 1 << 20) -> object:
        return secint.array(rng.integers(0, high, shape))

    async def timed(work: object) -> float:
        await mpc.barrier()
        begin = time.perf_counter()
        await mpc.output(work())
        return time.perf_counter() - begin

    seconds = {}
    if "mul" in job:
        x, y = (secret(job["mul"]["n"]) for _ in range(2))
        seconds["mul"] = await timed(lambda: (x * y)[:1])
    if "less_than" in job:
        x, y = (secret(job["less_than"]["n"]) for _ in range(2))
        seconds["less_than"] = await timed(lambda: (x < y)[:1])
    if "matmul" in job:
        m, k, n = (job["matmul"][name] for name in "mkn")
        a, b = secret(m, k, high=1 << 10), secret(k, n, high=1 << 10)
        seconds["matmul"] = await timed(lambda: (a @ b)[0, :1])
    if "argmax" in job:
        x = secret(job["argmax"]["rows"], job["argmax"]["n"])
        seconds["argmax"] = await timed(lambda: mpc.np_argmax(x, axis=1)[:1])
    if "geometric" in job:
        n, coins, bits = (job["geometric"][name] for name in ("n", "coins", "bits"))
        # One comparison of a secret uniform number with a public constant per coin.
        weights = 2 ** np.arange(bits)

        def draw() -> object:
            uniform = mpc.np_random_bits(secint, n * coins * bits).reshape(n * coins, bits)
            coin = (uniform @ secint.array(weights)) < (1 << (bits - 1))
            return (coin.reshape(n, coins) @ secint.array(2 ** np.arange(coins)))[:1]

        seconds["geometric"] = await timed(draw)
    if "sort" in job:
        x = secret(job["sort"]["n"])
        seconds["sort"] = await timed(lambda: mpc.np_sort(x)[:1])
    return seconds


async def party() -> None:
    """Run as one of the parties."""
    from mpyc.runtime import mpc

    await mpc.start()
    seconds = await cases(json.loads(os.environ["HEDGEROW_BENCH_JOB"]))
    if mpc.pid == 0:
        print(json.dumps(seconds), flush=True)
    await mpc.shutdown()


if __name__ == "__main__":
    if "HEDGEROW_BENCH_JOB" in os.environ:
        from mpyc.runtime import mpc

        mpc.run(party())
    else:
        start()
