"""Row of `make bench` on slopes from values of f: errors, and how often f is called."""

from __future__ import annotations

import warnings

import mpmath
import numdifftools
import numpy as np
from bench_measure import Line, peer, report
from scipy.differentiate import derivative as differentiate
from scipy.optimize import approx_fprime

from utils import numerical

#: Functions of a textbook, written for NumPy and mpmath, and where they are asked.
FUNCTIONS = [
    (lambda m, x: x**3 - 2 * x, 2.0),
    (lambda m, x: 1 / x, 3.0),
    (lambda m, x: m.sqrt(x), 2.0),
    (lambda m, x: m.exp(x), 1.0),
    (lambda m, x: m.log(x), 0.01),
    (lambda m, x: m.sin(x), 100.0),
    (lambda m, x: m.tan(x), 1.0),
    (lambda m, x: m.atan(x), 0.5),
    (lambda m, x: m.tanh(x), 0.7),
    (lambda m, x: m.exp(-x * x), 0.8),
    (lambda m, x: m.sin(x) / x, 1.0),
    (lambda m, x: m.exp(x) / (m.sin(x) ** 3 + m.cos(x) ** 3), 1.5),
]
SCIPY = peer("scipy")
FPRIME, DIFFERENTIATE = f"approx_fprime, {SCIPY}", f"differentiate, {SCIPY}"
NUMDIFFTOOLS = f"Derivative, {peer('numdifftools')}"
PEERS = {
    FPRIME: lambda f, x: approx_fprime([x], lambda x: f(x[0]))[0],
    DIFFERENTIATE: lambda f, x: differentiate(f, x).df,
    NUMDIFFTOOLS: lambda f, x: numdifftools.Derivative(f)(x),
}
SCALE = (
    "the steps in utils.numerical grow with abs(x), and do not shrink below "
    "abs(x) = 1: that is too wide for sin at 100 and for log at 0.01, and the "
    "peer does better there"
)
FEWER = (
    f"{SCALE}. And it tries no second step: the peer takes two to eight times "
    'as many values of f. Where f is analytic, "complex" needs one'
)
PAIRS = [
    ("central", FPRIME, SCALE),
    ("complex", DIFFERENTIATE, ""),
    ("complex", NUMDIFFTOOLS, ""),
    ("richardson", DIFFERENTIATE, FEWER),
    ("richardson", NUMDIFFTOOLS, FEWER),
]


class Counted:
    """A function whose answers have one precision, and that counts its values."""

    def __init__(self, f, dtype):
        self.f, self.dtype, self.count = f, dtype, 0

    def __call__(self, x):
        self.count += np.size(x)
        y = np.asarray(self.f(np, x))
        kind = np.complex64 if y.dtype.kind == "c" else np.float32
        return (y.astype(kind) if self.dtype == np.float32 else y)[()]


def true_slope(f, x) -> float:
    """Differentiate in fifty digits."""
    with mpmath.workdps(50):
        return float(mpmath.diff(lambda x: f(mpmath, x), mpmath.mpf(float(x))))


def error(derivative, f, x) -> tuple[float, int]:
    """Return the relative error in units of the precision, and the values of f.

    An error below one unit counts as one: the answer is as good as can be.
    """
    counted, true = Counted(f, x.dtype), true_slope(f, x)
    off = abs(float(derivative(counted, x)) - true) / abs(true)
    return max(1.0, off / float(np.finfo(x.dtype).eps)), counted.count


def errors(derivative, dtype) -> tuple[list[float], list[int]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = [error(derivative, f, dtype(x)) for f, x in FUNCTIONS]
    return tuple(zip(*pairs))


def ours(method):
    return lambda f, x: numerical.derivative(f, x, method=method)


def row():
    lines = []
    for dtype in (np.float64, np.float32):
        for method, name, why in PAIRS:
            off, count = errors(ours(method), dtype)
            their_off, their_count = errors(PEERS[name], dtype)
            n, m = max(count), f"{min(their_count)} to {max(their_count)}"
            lines.append(
                Line(
                    f'error of "{method}", values of f: {n}; '
                    f"{len(off)} functions in {dtype.__name__}",
                    f"{name}, values of f: {m}",
                    [a / b for a, b in zip(off, their_off)],
                    1.0,
                    why=why,
                    judge="largest",
                )
            )
    return lines


if __name__ == "__main__":
    report({"numerical": row})
