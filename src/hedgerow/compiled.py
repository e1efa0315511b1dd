"""How a kernel is declared: compiled by Numba, without the interpreter's lock, kept on disk.

Every parameter of a kernel that is not a plain number is annotated with `A`; its docstring says
which types and shapes it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

A = Any
"""An array, or a scalar whose type Numba infers from the call."""

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def jit(function: Kernel, signature: Any = None) -> Kernel:
    """Compile a kernel on its first call; it runs without the interpreter's lock.

    With a Numba `signature` it is compiled at once, for arguments of those types only.

    The compiled code is kept next to the source or, where that cannot be written, in the user's
    cache folder. Where neither can (a read-only install, no home) it is compiled in every process.

    Numba compares a kept kernel with the file of that kernel alone: after a change to a function
    that kernels of other files call, their caches in ``__pycache__`` have to be removed.

    Division by zero does not raise (NumPy's rule), so a kernel divides by nothing that may be 0.
    """
    try:
        made = njit(signature, cache=True, nogil=True, error_model="numpy")(function)
        return cast(Kernel, made)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    return cast(Kernel, njit(signature, nogil=True, error_model="numpy")(function))


@jit
def _nothing() -> None:
    pass


def load_compiler() -> None:
    """Load what Numba needs for the first call of any kernel: half a second, mostly imports."""
    _nothing()


def kernel_cache() -> str | None:
    """Return the folder in which compiled kernels of this module are kept; None if nowhere."""
    load_compiler()
    found = cast(Any, _nothing).stats.cache_path
    return None if found is None else str(found)
