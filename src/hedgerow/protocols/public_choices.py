"""Choices that depend on no row: streams of a public seed that anybody can draw again."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES, Prg


def public_words(public_seed: int, address: str, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """Draw uniform words that anybody can draw again; uint64 of that shape."""
    name = f"hedgerow/public choices/{public_seed}".encode()
    words = Prg(hashlib.sha256(name).digest()[:KEY_BYTES]).fill(address, shape, np.uint64)
    return words.astype(np.uint64, copy=False)


def public_uniform(public_seed: int, address: str, n: int) -> NDArray[np.float64]:
    """Draw numbers strictly between 0 and 1; float64 (n,)."""
    words = public_words(public_seed, address, (n,))
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def public_subset(
    public_seed: int, address: str, shape: tuple[int, ...], size: int
) -> NDArray[np.bool_]:
    """Draw `size` places of the last axis, each once at most and all alike; True there."""
    words = public_words(public_seed, address, shape)
    drawn = np.argsort(words, axis=-1, kind="stable")[..., :size]
    found = np.zeros(shape, dtype=np.bool_)
    np.put_along_axis(found, drawn, True, axis=-1)
    return found


def public_sample(
    public_seed: int, address: str, weight: NDArray[np.float64], n: int
) -> NDArray[np.int64]:
    """Draw n different places, one after the other in proportion to their weights, ascending.

    By exponential clocks: the first n to ring, of which each rings at the rate of its weight.
    Weights are at least 0, and above 0 in n places or more.
    """
    waits = -np.log(public_uniform(public_seed, address, weight.size))
    with np.errstate(divide="ignore"):
        return np.sort(np.argsort(waits / weight, kind="stable")[:n])
