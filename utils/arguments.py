"""What forward and reverse mode make of the arguments that they are given."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from utils.tracing import Traced

__all__ = [
    "alike",
    "as_given",
    "basis",
    "call",
    "function",
    "real",
    "refused",
    "several",
]


def refused(x, name: str, accepted: str) -> TypeError:
    """Return the error for an argument of another kind than is accepted."""
    return TypeError(f"{name} is {_describe(x)}; accepted is {accepted}")


def function(f, name: str = "f") -> Callable:
    """Return f, if it can be called."""
    if not callable(f):
        raise refused(f, name, "a function")
    return f


def real(x, name: str):
    """Return x as a floating-point number or array, of its own dtype.

    Python's whole numbers become floats: 3 is how one writes 3.0. An integer
    array is refused: its dtype has no room for a small change, so a derivative
    with respect to it is more often a mistake than a wish. What an outer
    derivative traces passes.
    """
    if isinstance(x, Traced):
        return x
    array = np.asarray(float(x) if type(x) is int else x)
    if array.dtype.kind != "f" or isinstance(x, tuple):
        numbers = "a real floating-point number or array (3.0, x.astype(float))"
        raise refused(x, name, numbers)
    if array.size == 0:
        raise ValueError(
            f"{name} is empty, of shape {array.shape}; accepted is one number or more"
        )
    return array[()]


def several(x, name: str) -> list:
    """Return the arguments of f: those in x if it is a tuple, else x alone."""
    if not isinstance(x, tuple):
        return [real(x, name)]
    if not x:
        raise TypeError(
            f"{name} is empty; at least one argument of f is needed"
        )
    return [real(a, f"{name}[{i}]") for i, a in enumerate(x)]


def as_given(results: list, many: bool):
    """Return a tuple for many arguments, and the one result for one."""
    results = [r[()] if isinstance(r, np.ndarray) else r for r in results]
    return tuple(results) if many else results[0]


def alike(v, x, name: str, model: str):
    """Return v in the dtype of x, if it is real and has the shape of x."""
    if not isinstance(v, Traced):
        if np.asarray(v).dtype.kind not in "iuf":
            raise refused(v, name, "a real number or array")
        v = np.asarray(v, dtype=x.dtype)[()]
    if v.shape != x.shape:
        raise ValueError(
            f"{name} has shape {v.shape}; accepted is {x.shape}, that of {model}"
        )
    return v


def call(f: Callable, *args):
    """Return what comes from f, if it is one real number or array."""
    y = function(f)(*args)
    if isinstance(y, int | float | np.generic):
        y = np.asarray(y)
    if not isinstance(y, Traced | np.ndarray) or y.dtype.kind not in "fiub":
        raise TypeError(
            f"f returned {_describe(y)}; accepted is one real number or array "
            "(np.stack makes one of several)"
        )
    if y.size == 0:
        raise ValueError(
            f"f returned an empty array, of shape {y.shape}; accepted is one "
            "number or more"
        )
    return y


def basis(x):
    """Return the arrays of the shape of x that are 1 at one entry, else 0."""
    return np.eye(x.size, dtype=x.dtype).reshape(-1, *x.shape)


def _describe(x) -> str:
    if isinstance(x, np.ndarray | Traced) and x.shape and x.dtype.kind != "O":
        return f"an array of {x.dtype} of shape {x.shape}"
    return f"{x!r:.50} ({type(x).__name__})"
