"""Check a gradient against slopes that are measured from values of f alone.

Two tests, for functions in NumPy and in TensorFlow. `check_gradient` compares a
gradient with difference quotients: it sees every wrong slope, and calls f ten
times or so for each number in x. `dot_product_test` compares reverse mode with
forward mode: two passes for any size, but blind to a mistake that both share.

**How a slope is measured.** Central differences are taken with a ladder of
steps, from eps**(1/5) times max(1, abs(x)) down to eps**(2/5) times
min(1, abs(x)). The one that differs least from its neighbour is believed, up to
that difference and the rounding of f. So the scale of f is found: log at 1e-8
and x**2 at 1e4 want different steps. At a kink the slopes to the left and to
the right do not approach each other as the step shrinks; at a jump they grow
like 1 / h. All is done in float64 if f answers in float64, whatever x is.

Source: the dot-product test is that of linear operators, as in PyLops
(``dottest``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real

import numpy as np

from utils.arguments import as_given, function, refused, several
from utils.numerical import _checked, _representable

__all__ = ["Finding", "Report", "check_gradient", "dot_product_test"]

_ON_PURPOSE = (
    "If the backward pass is another expression on purpose (a straight-through\n"
    "  estimator), a difference is what must be seen: check that expression alone."
)
_KINK, _JUMP = 1, 2


@dataclass(frozen=True)
class Finding:
    """One thing that a check has to say, in words and for programs.

    Attributes
    ----------
    kind
        "differs", "none" (the gradient is None), "not finite", "kink", "jump",
        "uncertain" (the measurement is), "upstream" (the backward pass is not
        linear in the upstream gradient), "random" (f is) or "dot product".
    ok
        False for something wrong, True for a remark.
    text
        The same in words.
    argument, index, output
        Which argument of f, which entry of it, and which entry of the result.
    claimed, measured
        What the gradient says, and what was measured.
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
class Report:
    """What a check found: prints in plain words, is true if nothing is wrong.

    Attributes
    ----------
    title
        What was done, in which precision.
    findings
        What is wrong, the largest difference first; then remarks.
    """

    title: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.ok for finding in self.findings)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        wrong = sum(not finding.ok for finding in self.findings)
        lines = [f"{self.title}: {f'{wrong} wrong' if wrong else 'all well'}."]
        lines += [finding.text for finding in self.findings[:6]]
        if len(self.findings) > 6:
            lines.append(f"And {len(self.findings) - 6} more, in .findings.")
        if any(finding.kind == "differs" for finding in self.findings):
            lines.append(_ON_PURPOSE)
        return "\n  ".join(lines)

    def raise_if_wrong(self) -> None:
        """Raise an AssertionError with the report, unless all is well."""
        if not self.ok:
            raise AssertionError(repr(self))


def check_gradient(
    f: Callable, *args, gradient: Callable | None = None, rtol=None
) -> Report:
    """Compare the gradient (or the Jacobian) of f with measured slopes.

    Parameters
    ----------
    f
        A function in TensorFlow, whose gradient is the tape's, or in NumPy. It
        returns one real number, array or tensor.
    *args
        Its arguments: floating-point numbers, arrays, tensors or variables.
    gradient
        For a function in NumPy: takes ``args`` and returns for each an array of
        shape (shape of the result) + (shape of the argument), in a tuple if
        there are several. Left out: reverse mode, as in `utils.reverse_mode`.
    rtol
        How far a slope may be off, relative to its size, beyond the uncertainty
        of the measurement. Left out: eps**(1/3), which is 6e-6 in float64 and
        5e-3 in float32.

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        If an argument is not floating-point, or f or ``gradient`` returns no
        real numbers.
    ValueError
        If an argument or result is empty, ``gradient`` returns another shape,
        the shape of the result changes between calls, or ``rtol`` is not finite
        or below 0.

    Notes
    -----
    An f that casts to a lower precision and back is flat for the shortest
    steps: it is called wrong.

    Examples
    --------
    >>> import numpy as np
    >>> def f(x):
    ...     return np.sum(x**3)
    >>> x = np.array([1.0, 2.0])
    >>> check_gradient(f, x, gradient=lambda x: 3 * x**2)
    check_gradient, slopes: 2, in float64: all well.
    >>> report = check_gradient(f, x, gradient=lambda x: 3 * x)
    >>> print(report.findings[0].text)
    Slope of f along x[1]: the gradient says 6, measured 12 (off by 6).
    """
    if not (rtol is None or isinstance(rtol, Real)):
        raise refused(rtol, "rtol", "a number")
    if rtol is not None and not 0 <= rtol < np.inf:
        raise ValueError(f"rtol is {rtol}; accepted are finite numbers from 0")
    engine, value, args, eps, dtype = _set_up(f, args)
    y = value(*args)
    slopes = y.size * sum(a.size for a in args)
    title = f"check_gradient, slopes: {slopes}, in {dtype}"
    if findings := _randomness(y, value(*args), eps):
        return Report(title, tuple(findings))
    rtol = eps ** (1 / 3) if rtol is None else rtol
    if gradient is None:
        claims, findings = _backward(engine, args, y, rtol)
    else:
        claims = _given(gradient, args, y)
    for k, (a, claim) in enumerate(zip(args, claims, strict=True)):
        name = "x" if len(args) == 1 else f"args[{k}]"
        # Five facts about the slope of each output (row) along each input.
        entries = np.ndindex(a.shape)
        seen = [_measure(value, args, k, i, y, eps) for i in entries]
        seen = np.stack(seen, axis=-1)
        if claim is None:
            findings.append(_none(name, k, *seen[:2]))
            continue
        for r, c in np.ndindex(claim.shape):
            verdict = _verdict(claim[r, c], *seen[:, r, c], rtol)
            if verdict is None:
                continue
            kind, ok, text = verdict
            i, o = _index(c, a.shape), _index(r, y.shape)
            text = f"Slope of {_entry('f', o)} along {_entry(name, i)}: {text}."
            pair = float(claim[r, c]), float(seen[0, r, c])
            findings.append(Finding(kind, ok, text, k, i, o, *pair))
    return Report(title, tuple(sorted(findings, key=_rank)))


def dot_product_test(f: Callable, *args, seed: int = 0) -> Report:
    """Compare forward with reverse mode: <u, J v> = <J^T u, v> at random u, v.

    Parameters
    ----------
    f, *args
        As in `check_gradient`. The modes are those of `utils.forward_mode` and
        `utils.reverse_mode`, or, for a function in TensorFlow,
        ``tf.autodiff.ForwardAccumulator`` and ``tf.GradientTape``.
    seed
        Seeds u and v, which are standard normal.

    Returns
    -------
    Report
        With one finding: ``claimed`` is <J^T u, v>, ``measured`` is <u, J v>.
        If they agree, both modes use one J, right or wrong. None counts as 0.

    Raises
    ------
    TypeError, ValueError
        As in `check_gradient`.

    Examples
    --------
    >>> import numpy as np
    >>> dot_product_test(lambda x: np.sin(x) * x[0], np.array([3.0, 5.0])).ok
    True
    """
    engine, value, args, eps, dtype = _set_up(f, args)
    y = value(*args)
    title = f"dot_product_test, in {dtype}"
    if random := _randomness(y, value(*args), eps):
        return Report(title, tuple(random))
    normal = np.random.default_rng(seed).standard_normal
    u, *v = (np.asarray(normal(b.shape), b.dtype) for b in (y, *args))
    Jv, JTu = engine.jvp(args, v), engine.vjp(args, u)
    left = [] if Jv is None else [u * Jv]
    right = [g * w for g, w in zip(JTu, v, strict=True) if g is not None]
    total = [sum(map(np.sum, terms), 0.0) for terms in (left, right)]
    size = sum(np.sum(np.abs(t)) for t in left + right)
    with np.errstate(invalid="ignore"):
        ok = abs(total[0] - total[1]) <= np.sqrt(eps) * size
    text = "<u, J v> = {} in forward mode, <J^T u, v> = {} in reverse mode."
    forward = f"{total[0]:.6g}" if left else "None"
    reverse = f"{total[1]:.6g}" if right else "None"
    text = text.format(forward, reverse)
    pair = {"claimed": float(total[1]), "measured": float(total[0])}
    return Report(title, (Finding("dot product", bool(ok), text, **pair),))


class _NumPy:
    """f on arrays, differentiated by the engines of this book."""

    def __init__(self, f):
        self.f = f

    def value(self, *args):
        return np.asarray(self.f(*args))

    def vjp(self, args, u):
        from utils.reverse_mode import vjp

        return vjp(self.f, tuple(args), u)

    def jvp(self, args, v):
        from utils.forward_mode import jvp

        return jvp(self.f, tuple(args), tuple(v))


class _TensorFlow:
    """f on tensors, differentiated by TensorFlow; arrays come in and go out."""

    def __init__(self, f):
        import tensorflow as tf

        self.f, self.tf = f, tf

    def value(self, *args):
        y = self.f(*map(self.tf.constant, args))
        if not hasattr(y, "__tf_tensor__"):
            raise TypeError(
                f"f returned a {type(y).__name__}; accepted is one tensor"
            )
        return self.tf.convert_to_tensor(y).numpy()

    def vjp(self, args, u):
        xs = [self.tf.constant(a) for a in args]
        with self.tf.GradientTape() as tape:
            tape.watch(xs)
            y = self.f(*xs)
        gs = tape.gradient(y, xs, self.tf.constant(u))
        array = self.tf.convert_to_tensor  # tf.gather gives IndexedSlices
        return [None if g is None else array(g).numpy() for g in gs]

    def jvp(self, args, v):
        xs, vs = ([self.tf.constant(b) for b in bs] for bs in (args, v))
        with self.tf.autodiff.ForwardAccumulator(xs, vs) as accumulator:
            y = self.f(*xs)
        tangent = accumulator.jvp(y)
        return None if tangent is None else tangent.numpy()


def _set_up(f, given):
    args = [np.asarray(a) for a in several(given, "args")]
    function(f)
    tensors = any(hasattr(a, "__tf_tensor__") for a in given)
    tensors = tensors or hasattr(f(*(a[()] for a in args)), "__tf_tensor__")
    engine = _TensorFlow(f) if tensors else _NumPy(f)
    # An f that insists on another dtype may raise anything.
    with suppress(Exception):
        wide = [a.astype(np.float64) for a in args]
        if engine.value(*wide).dtype == np.float64:
            args = wide
    dtypes = [b.dtype for b in (engine.value(*args), *args)]
    infos = [np.finfo(d) for d in dtypes if d.kind == "f"]
    info = min(infos, key=lambda info: info.precision)
    text = str(info.dtype)
    if info.precision < 15:
        digits = info.precision * 2 // 3
        text += f" (f does not answer in float64: {digits} digits at best)"
    value = _checked(engine.value, None, "a check needs one shape in all calls")
    return engine, value, args, info.eps, text


def _randomness(y, again, eps):
    if np.allclose(y, again, rtol=100 * eps, atol=0, equal_nan=True):
        return []
    off = np.nanmax(np.abs(np.subtract(y, again)))
    text = (
        f"f is random: called twice with the same x it differs by {off:.3g}. "
        "Draw the noise once, outside f or from a fixed seed, and check again."
    )
    return [Finding("random", False, text)]


def _backward(engine, args, y, rtol):
    """One backward pass for each row, and one with 1, 2, ... as upstream."""
    eye = np.eye(y.size, dtype=y.dtype).reshape(-1, *y.shape)
    rows = zip(*(engine.vjp(args, e) for e in eye), strict=True)
    u = np.arange(2, y.size + 2, dtype=y.dtype)
    claims, findings = [], []
    pulled = engine.vjp(args, u.reshape(y.shape))
    for k, (parts, whole) in enumerate(zip(rows, pulled, strict=True)):
        if whole is None:
            claims.append(None)
            continue
        J = np.reshape(parts, (y.size, -1))
        with np.errstate(invalid="ignore"):
            off = np.abs(np.ravel(whole) - u @ J)
            wrong = np.any(off > rtol * (u @ np.abs(J)))
        if wrong:
            text = (
                "The backward pass is not linear in the upstream gradient: "
                "does it forget to multiply by it, or clip?"
            )
            findings.append(Finding("upstream", False, text, k))
        claims.append(J)
    return claims, findings


def _given(gradient, args, y):
    claims = function(gradient, "gradient")(*args)
    claims = claims if isinstance(claims, tuple) else (claims,)
    for claim in claims:
        if np.asarray(claim).dtype.kind not in "fiu":
            raise refused(claim, "gradient(*args)", "a real number or array")
    got = [np.shape(c) for c in claims]
    needed = [y.shape + a.shape for a in args]
    if got != needed:
        got, needed = (as_given(s, len(s) > 1) for s in (got, needed))
        raise ValueError(
            f"gradient returned shape {got}; accepted is {needed}, the shape of "
            "the result and then that of the argument"
        )
    return [np.reshape(c, (y.size, -1)) for c in claims]


def _measure(value, args, k, i, y, eps):
    """Slope, uncertainty, slopes to the left and right, and kink or jump."""

    def moved(s):
        a = args[k].copy()
        a[i] += s
        return value(*args[:k], a, *args[k + 1 :]).ravel().astype(np.float64)

    x, bits = args[k][i], -np.log2(eps)
    size = float(abs(x)) if eps**2 < abs(x) < np.inf else 1.0
    top = np.floor(np.log2(max(1.0, size)) - bits / 5)
    end = np.log2(min(1.0, size)) - 2 * bits / 5
    rung = max(1, bits // 17)
    steps = (2.0 ** np.arange(top, end, -rung)).astype(x.dtype)
    steps = _representable(x, steps)
    steps = steps[steps != 0]
    y = y.ravel().astype(np.float64)
    with np.errstate(all="ignore"):
        high = np.array([moved(s) for s in steps])
        low = np.array([moved(-s) for s in steps])
        h = steps.astype(np.float64)[:, None]
        left, right = (y - low) / h, (high - y) / h
        slope, gap = (high - low) / (2 * h), np.abs(right - left)
        steep = np.fmax(np.abs(right), np.abs(left))
        large = np.fmax(np.abs(high), np.abs(low))
        rough = 2 * eps * large / h
        error = np.abs(np.diff(slope, axis=0)) + rough[1:]
        best = np.argmin(np.where(np.isnan(error), np.inf, error), axis=0)
        a, b = (best, np.arange(y.size)), (best + 1, np.arange(y.size))
        kink = gap[b] > np.fmax(4 * rough[b], eps ** (1 / 6) * steep[b])
        kink &= gap[b] > gap[a] / 2 ** (rung / 2)
        jump = (steep * h)[b] > np.sqrt(eps) * large[b]
        jump &= steep[b] > 0.9 * 2**rung * steep[a]
        turn = np.where(jump, _JUMP, np.where(kink, _KINK, 0))
    return np.stack([slope[b], error[a], left[b], right[b], turn])


def _verdict(claimed, slope, error, left, right, turn, rtol):
    says = f"the gradient says {claimed:.6g}, "
    sides = f"{left:.6g} to the left and {right:.6g} to the right"
    spare = rtol * max(abs(claimed), abs(slope)) + 3 * error
    off = abs(claimed - slope)
    if not np.isfinite(slope):
        text = f"but f is not finite around x (slopes {sides})"
        return "not finite", False, says + text
    if not np.isfinite(claimed):
        return "not finite", False, says + f"measured {slope:.6g}"
    if turn == _JUMP:
        return "jump", False, says + f"but f jumps (slopes {sides})"
    if turn == _KINK:
        ok = min(left, right) - spare <= claimed <= max(left, right) + spare
        where = "within" if ok else "outside of"
        text = f"{where} the slopes of a kink, {sides}"
        return "kink", bool(ok), says + text
    if off > spare:
        return (
            "differs",
            False,
            says + f"measured {slope:.6g} (off by {off:.3g})",
        )
    if off > 0 and error > max(10 * rtol, 0.1 * abs(claimed), 0.1 * abs(slope)):
        text = f"measured {slope:.3g}, uncertain by {error:.1g}"
        return "uncertain", True, says + text
    return None


def _none(name, k, slopes, errors):
    sure = np.abs(slopes) > 3 * errors
    steepest = np.max(np.abs(slopes), where=sure, initial=0.0)
    text = f"The gradient along {name} is None: no path leads from it to f"
    text += f", but slopes reach {steepest:.6g}." if steepest else "."
    return Finding("none", not steepest, text, k)


def _rank(finding):
    if finding.claimed is None:
        return finding.ok, -np.inf
    off = abs(finding.claimed - finding.measured)
    return finding.ok, -np.inf if np.isnan(off) else -off


def _index(n, shape):
    return tuple(int(i) for i in np.unravel_index(n, shape))


def _entry(name, index):
    return f"{name}[{', '.join(map(str, index))}]" if index else name
