"""Check a gradient against slopes measured from values of f alone.

Two tests, for NumPy and for TensorFlow functions. `check_gradient` compares a gradient with
difference quotients: slow, and it sees any wrong slope. `dot_product_test` compares reverse
mode with forward mode: quick for any size, but blind to a mistake that both modes share.

**How a slope is measured.** Along each input, central differences are taken with a ladder of
steps, each an eighth of the one before, from eps**(1/5) times max(1, abs(x)) down to
eps**(2/5) times min(1, abs(x)). Of two neighbours that agree best the shorter step is
believed; their difference, and the rounding of f, say how far. This finds the scale of f,
which no fixed step knows: log at 1e-8 and x**2 at 1e4 want different ones. A kink is where
the slopes to the left and to the right do not approach each other when the step shrinks.

Everything runs in float64 if f can; float32 carries 7 digits, and quotients lose half of them.

Source: the dot-product test is that of PyLops (``pylops.utils.dottest``) for linear operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from utils.numerical import _checked, _real, _representable

__all__ = ["DotProductTest", "Finding", "GradientCheck", "check_gradient", "dot_product_test"]

_ON_PURPOSE = (
    "If the backward pass is another expression on purpose (a straight-through estimator), "
    "it must differ:\ncheck that expression by itself."
)


class _Result:
    """True when all is well; prints its report."""

    ok: bool

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return str(self)

    def raise_if_wrong(self) -> None:
        """Raise AssertionError with the report, unless ``ok``."""
        if not self.ok:
            raise AssertionError(str(self))


@dataclass(frozen=True)
class Finding:
    """One thing that was seen.

    Attributes
    ----------
    kind
        "differs", "none", "not finite", "kink", "jump", "coarse" (the measurement is),
        "upstream" (not linear in the upstream gradient) or "random".
    ok
        Whether it is only a remark.
    text
        What is the matter, in words.
    argument, index, output
        Which argument of f, which entry of it, and which entry of the result.
    claimed, measured
        The two slopes; None where there is none.
    """

    kind: str
    ok: bool
    text: str
    argument: int | None = None
    index: tuple[int, ...] | None = None
    output: tuple[int, ...] | None = None
    claimed: float | None = None
    measured: float | None = None


@dataclass(frozen=True, repr=False)
class GradientCheck(_Result):
    """What `check_gradient` found: ``ok``, ``findings``, ``slopes`` (how many) and ``dtype``."""

    findings: tuple[Finding, ...]
    slopes: int
    dtype: str

    @property
    def ok(self) -> bool:
        return all(f.ok for f in self.findings)

    def __str__(self) -> str:
        wrong = [f.text for f in self.findings if not f.ok]
        remarks = [f.text for f in self.findings if f.ok]
        head = f"{len(wrong)} things are wrong" if len(wrong) > 1 else "1 thing is wrong"
        lines = [f"{head if wrong else 'fine'}; {self.slopes} slopes, in {self.dtype}"]
        for texts in (wrong, remarks):
            lines += texts[:5] + [f"... and {len(texts) - 5} more"] * (len(texts) > 5)
        if any(f.kind in ("differs", "none") and not f.ok for f in self.findings):
            lines.append(_ON_PURPOSE)
        return "\n  ".join(lines)


def check_gradient(f: Callable, *args, gradient=None, rtol: float | None = None) -> GradientCheck:
    pass
