"""Slopes from values of f alone: finite differences and the complex step.

A difference quotient has two errors. Truncation, what the secant cuts off, shrinks like
h**p; round-off, the digits lost when nearly equal values are subtracted, grows like eps / h.
They meet near h = eps**(1 / (p + 1)), where both are near eps**(p / (p + 1)):

============  =====================================  ==  ==============  ===========
method        quotient                               p   error, float64  evaluations
============  =====================================  ==  ==============  ===========
"forward"     (f(x + h) - f(x)) / h                  1   1e-8            n + 1
"backward"    (f(x) - f(x - h)) / h                  1   1e-8            n + 1
"central"     C(h) = (f(x + h) - f(x - h)) / (2 h)   2   4e-11           2 n
"richardson"  (4 C(h / 2) - C(h)) / 3                4   3e-13           4 n
"complex"     imag(f(x + i h)) / h                   2   2e-16           n
============  =====================================  ==  ==============  ===========

Here n counts the numbers in x; the errors are relative, for an f that is about as large as
its derivatives. The complex step subtracts nothing, so it has no round-off and h may be tiny.
It wants an analytic f. Code that throws the imaginary part away is refused, but abs or conj
inside f go unseen: for abs(z) * z at 1 the complex step says 1, and the slope is 2.

**Steps.** The default h is so many units in the last place of max(1, abs(x)), a power of two
not above the h of the theory. Default or given, it is then replaced by (abs(x) + h) - abs(x).
So x + h - x == h holds in floating point: the quotient divides by the distance that f was
moved. The complex step adds nothing to x, and its h is the root of the smallest normal
number, 1.5e-154 in float64 and 1.1e-19 in float32, for every x.

Sources: Press et al., *Numerical Recipes*, section 5.7 (a representable step); Martins,
Sturdza and Alonso, "The complex-step derivative approximation", ACM Transactions on
Mathematical Software 29 (2003), 245-262.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

import numpy as np

__all__ = ["METHODS", "derivative", "gradient", "jacobian"]

_ORDER = {"forward": 1, "backward": 1, "central": 2, "richardson": 4, "complex": 2}
METHODS = tuple(_ORDER)


def derivative(f: Callable, x, *, method: str = "central", step=None):
    """Differentiate an elementwise function at all points of x at once.

    Parameters
    ----------
    f
        Takes an array and returns one of the same shape, entry by entry. It is called 2, 2,
        2, 4 or 1 times, in the order of ``METHODS``, for any number of points.
    x
        A floating-point number or array of any shape.
    method
        One of ``METHODS``: "forward", "backward", "central", "richardson", "complex".
    step
        None (chosen by dtype and size of x), or a positive number, or an array of these that
        broadcasts with x: many steps at one point are one call.

    Returns
    -------
    numpy.ndarray or NumPy scalar
        Of the dtype of x, and of the shape that x and ``step`` have together.

    Raises
    ------
    TypeError
        If x is not floating-point, or f returns no real numbers, or throws the imaginary part
        away while the method is "complex".
    ValueError
        If x is empty, ``method`` unknown, ``step`` not positive and finite or too small to
        move x, or f returns another shape.

    Examples
    --------
    >>> import numpy as np
    >>> derivative(np.sin, np.array([0.0, 1.0, 3.0])).round(6)
    array([ 1.      ,  0.540302, -0.989992])
    >>> derivative(np.exp, 0.0, step=np.array([1.0, 0.1, 0.01])).round(6)
    array([1.175201, 1.001668, 1.000017])
    """
    x = _real("x", x)
    h = _step(x, method, step)
    g = _checked(
        f, h.shape, "derivative needs an elementwise f; others are for jacobian"
    )
    return _slope(g, np.broadcast_to(x, h.shape), h, method).astype(x.dtype)[()]


def gradient(f: Callable, *args, method: str = "central", step: float | None = None):
    """Differentiate a function that returns a number, along each number in its arguments.

    Parameters
    ----------
    f
        Takes ``args`` and returns a real number. With n numbers in ``args`` it is called n + 1
        ("forward", "backward"), 2 n ("central"), 4 n ("richardson") or n ("complex") times.
    *args
        Floating-point numbers or arrays, in the order in which f takes them.
    method, step
        As in `derivative`, but a given step is one number.

    Returns
    -------
    numpy.ndarray or NumPy scalar, or a tuple of these
        For each argument its slopes, in its shape and dtype; no tuple if there is one argument.

    Raises
    ------
    TypeError, ValueError
        As in `derivative`; if f returns an array, ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> gx, gy = gradient(lambda x, y: np.sin(x) - y**3, 3.0, 5.0)
    >>> f"{gx:.6f} {gy:.6f}"
    '-0.989992 -75.000000'
    """
    needs = "gradient needs an f that returns a number; arrays are for jacobian"
    return _partials(f, args, method, step, (), needs)


def jacobian(f: Callable, *args, method: str = "central", step: float | None = None):
    """Differentiate a function that returns an array: the Jacobian, column by column.

    Parameters
    ----------
    f
        Takes ``args`` and returns a real array, of one shape in all calls.
    *args, method, step
        As in `gradient`, with as many evaluations.

    Returns
    -------
    numpy.ndarray, or a tuple of these
        For each argument an array of shape (shape of the result) + (shape of the argument):
        entry [i, j] is the slope of output i along input j.

    Raises
    ------
    TypeError, ValueError
        As in `derivative`; if the shape of the result changes between calls, ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> to_plane = lambda p: p[0] * np.array([np.cos(p[1]), np.sin(p[1])])
    >>> jacobian(to_plane, np.array([2.0, 0.0])).round(6)
    array([[1., 0.],
           [0., 2.]])
    """
    return _partials(
        f, args, method, step, None, "jacobian needs one shape in all calls"
    )


def _partials(f, args, method, step, shape, needs):
    if not args:
        raise TypeError(
            "args is empty; after f come the arguments that f takes, at least one"
        )
    if np.ndim(step):
        raise ValueError(
            f"step has shape {np.shape(step)}; gradient and jacobian take a number"
        )
    args = [_real(f"args[{k}]", a) for k, a in enumerate(args)]
    steps = [_step(a, method, step) for a in args]
    value = _checked(f, shape, needs)
    at_x = value(*args) if method in ("forward", "backward") else None

    def column(k, i):
        def along(z):
            moved = args[k].astype(z.dtype)
            moved[i] = z
            return value(*args[:k], moved, *args[k + 1 :])

        return _slope(along, args[k][i], steps[k][i], method, at_x)

    out = []
    for k, a in enumerate(args):
        columns = np.stack([column(k, i) for i in np.ndindex(a.shape)], axis=-1)
        out.append(columns.reshape(columns.shape[:-1] + a.shape).astype(a.dtype)[()])
    return tuple(out) if len(out) > 1 else out[0]


def _slope(g, x, h, method, at_x=None):
    if method == "complex":
        return g(x + 1j * h).imag / h
    if method == "richardson":
        half = _representable(x, h / 2)
        ratio = (h / half) ** 2  # 4, unless one of the two had to give way to x
        wide, narrow = (_slope(g, x, s, "central") for s in (h, half))
        return narrow + (narrow - wide) / (ratio - 1)
    if at_x is None and method != "central":
        at_x = g(x)
    high = at_x if method == "backward" else g(x + h)
    low = at_x if method == "forward" else g(x - h)
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, and is handed on
        return (high - low) / (2 * h if method == "central" else h)


def _representable(x, h):
    with np.errstate(invalid="ignore"):  # no step leads away from inf: NaN
        return (np.abs(x) + h) - np.abs(x)


def _step(x, method, step):
    if method not in METHODS:
        near = get_close_matches(str(method).lower(), METHODS, n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(
            f"method is {method!r}{meant}; accepted are {', '.join(METHODS)}"
        )
    info, p = np.finfo(x.dtype), _ORDER[method]
    with np.errstate(invalid="ignore"):
        ulp, ulp_1 = np.spacing(np.abs(x)), np.spacing(np.maximum(1, np.abs(x)))
    if step is None:
        tiny = np.full(x.shape, np.sqrt(info.smallest_normal))
        return (
            tiny
            if method == "complex"
            else _representable(x, ulp_1 * 2.0 ** (p * info.nmant // (p + 1)))
        )
    step = np.asarray(step)
    if step.dtype.kind not in "iuf" or not np.all((step > 0) & np.isfinite(step)):
        raise ValueError(
            f"step is {_short(step)}; positive, finite numbers are accepted"
        )
    try:
        h = np.broadcast_to(
            step.astype(x.dtype), np.broadcast_shapes(x.shape, step.shape)
        )
    except ValueError:
        raise ValueError(
            f"step has shape {step.shape}; x has {x.shape}, they must broadcast"
        ) from None
    h = h if method == "complex" else _representable(x, h)
    if np.any(h <= (ulp if method == "richardson" else 0)):
        raise ValueError(
            f"step is {_short(step)} and vanishes next to x = {_short(x)} in {x.dtype}; "
            f"accepted are steps from {2 * np.max(ulp):.1e}"
        )
    return h


def _real(name, x):
    x = np.asarray(x)
    if x.dtype.kind != "f":
        raise TypeError(
            f"{name} is {_short(x)}, dtype {x.dtype}; floating-point numbers are accepted, as 3.0"
        )
    if x.size == 0:
        raise ValueError(
            f"{name} is empty, shape {x.shape}; at least one number is needed"
        )
    return x


def _checked(f, shape, needs):
    """f with a new array as its result, of one shape and real (complex for complex arguments)."""

    def value(*args):
        nonlocal shape
        y = np.array(f(*(np.array(a)[()] for a in args)))
        if any(np.iscomplexobj(a) for a in args):
            if y.dtype.kind != "c":
                raise TypeError(
                    f"f returned {y.dtype} for a complex argument: it throws the imaginary part "
                    "away; the complex step needs an analytic f, without abs, real or float"
                )
        elif y.dtype.kind not in "fiu":
            raise TypeError(
                f"f returned {_short(y)}, dtype {y.dtype}; real numbers are accepted"
            )
        shape = y.shape if shape is None else shape
        if y.shape != shape:
            raise ValueError(f"f returned shape {y.shape} in place of {shape}; {needs}")
        return y

    return value


def _short(x):
    return " ".join(np.array2string(np.asarray(x), threshold=4, edgeitems=2).split())
