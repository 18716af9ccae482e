"""Slopes from values of f alone: finite differences and the complex step.

A difference quotient has two errors. Truncation, what the secant cuts off,
shrinks like h**p; round-off, the digits lost when nearly equal values are
subtracted, grows like eps / h. They meet near h = eps**(1 / (p + 1)), where
both are near eps**(p / (p + 1)):

============  =====================================  ==  ==========  ===========
method        quotient                               p   error       calls
============  =====================================  ==  ==========  ===========
"forward"     (f(x + h) - f(x)) / h                  1   1e-8        n + 1
"backward"    (f(x) - f(x - h)) / h                  1   1e-8        n + 1
"central"     C(h) = (f(x + h) - f(x - h)) / (2 h)   2   4e-11       2 n
"richardson"  (4 C(h / 2) - C(h)) / 3                4   3e-13       4 n
"complex"     imag(f(x + i h)) / h                   2   2e-16       n
============  =====================================  ==  ==========  ===========

Here n counts the numbers in x. The errors are relative ones in float64, for an
f that is about as large as its derivatives. The complex step subtracts nothing:
it has no round-off, and h may be tiny. It wants an analytic f. An f that throws
the imaginary part away is refused, but abs or conj inside f goes unseen: for
abs(z) * z at 1 the complex step says 1, and the slope is 2.

**Steps.** The default h is a whole number of units in the last place (ulp) of
max(1, abs(x)): a power of two of them, the largest whose h is not above the h
of the theory. Default or given, h is then replaced by (abs(x) + h) - abs(x). So
x + h - x == h holds in floating point, and the quotient divides by the distance
that f was moved. The complex step adds nothing to x; its h is the root of the
smallest normal number, 1.5e-154 in float64 and 1.1e-19 in float32.

Sources: Press et al., *Numerical Recipes*, section 5.7 (representable steps);
Martins, Sturdza and Alonso, "The complex-step derivative approximation", ACM
Transactions on Mathematical Software 29 (2003), 245-262.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

import numpy as np

from utils.arguments import as_given, function, real, several

__all__ = ["METHODS", "derivative", "gradient", "jacobian"]

_ORDER = {
    "forward": 1,
    "backward": 1,
    "central": 2,
    "richardson": 4,
    "complex": 2,
}
METHODS = tuple(_ORDER)


def derivative(f: Callable, x, *, method: str = "central", step=None):
    """Differentiate an elementwise function at all points of x at once.

    Parameters
    ----------
    f
        Takes and returns a number, or works entry by entry on an array of
        points; of a number it may make an array. It is called 2, 2, 2, 4 or 1
        times, in the order of ``METHODS``, however many points there are.
    x
        A floating-point number or array of any shape.
    method
        "forward", "backward", "central", "richardson" or "complex".
    step
        None (chosen by dtype and size of x), or a positive number, or an array
        of these that broadcasts with x: many steps at one point are one call.

    Returns
    -------
    numpy.ndarray
        Of the dtype of x, and of the shape of f(x); that is the shape that x
        and ``step`` have together, if it is not that of a number.

    Raises
    ------
    TypeError
        If x is not floating-point, or f returns no real numbers, or throws the
        imaginary part away while the method is "complex".
    ValueError
        If x is empty, ``method`` unknown, ``step`` not positive and finite or
        too small to move x, or f returns another shape.

    Examples
    --------
    >>> import numpy as np
    >>> derivative(np.sin, np.array([0.0, 1.0, 3.0])).round(6)
    array([ 1.      ,  0.540302, -0.989992])
    >>> derivative(np.exp, 0.0, step=np.array([1.0, 0.1, 0.01])).round(6)
    array([1.175201, 1.001668, 1.000017])
    """
    x = np.asarray(real(x, "x"))
    h = _step(x, method, step)
    needs = "derivative needs an f that works entry by entry"
    g = _checked(f, h.shape or None, needs)
    x = np.broadcast_to(x, h.shape)
    return _slope(g, x, h, method).astype(x.dtype)[()]


def gradient(f: Callable, *args, method: str = "central", step=None):
    """Differentiate a function that returns a number, along all its inputs.

    Parameters
    ----------
    f
        Takes ``args`` and returns a real number. With n numbers in ``args`` it
        is called n + 1 ("forward", "backward"), 2 n ("central"), 4 n
        ("richardson") or n ("complex") times.
    *args
        Floating-point numbers or arrays, in the order in which f takes them.
    method, step
        As in `derivative`, but a given step is one number.

    Returns
    -------
    numpy.ndarray
        For each argument its slopes, in its shape and dtype; for one argument
        no tuple.

    Raises
    ------
    TypeError, ValueError
        As in `derivative`; ValueError if f returns an array.

    Examples
    --------
    >>> import numpy as np
    >>> gx, gy = gradient(lambda x, y: np.sin(x) - y**3, 3.0, 5.0)
    >>> f"{gx:.6f} {gy:.6f}"
    '-0.989992 -75.000000'
    """
    needs = "gradient needs an f that returns a number (jacobian takes arrays)"
    return _partials(f, args, method, step, (), needs)


def jacobian(f: Callable, *args, method: str = "central", step=None):
    """Differentiate a function that returns an array, column by column.

    Parameters
    ----------
    f
        Takes ``args`` and returns a number or an array, of one shape in all
        calls.
    *args, method, step
        As in `gradient`, with as many evaluations.

    Returns
    -------
    numpy.ndarray
        For each argument an array of shape (shape of the result of f) + (shape
        of the argument). For one argument no tuple.

    Raises
    ------
    TypeError, ValueError
        As in `derivative`; ValueError if the shape of the result changes.

    Examples
    --------
    >>> import numpy as np
    >>> polar = np.array([2.0, 0.0])  # radius and angle
    >>> to_plane = lambda p: p[0] * np.array([np.cos(p[1]), np.sin(p[1])])
    >>> jacobian(to_plane, polar).round(6)
    array([[1., 0.],
           [0., 2.]])
    """
    needs = "jacobian needs one shape in all calls"
    return _partials(f, args, method, step, None, needs)


def _partials(f, args, method, step, shape, needs):
    if np.ndim(step):
        raise ValueError(
            f"step has shape {np.shape(step)}; accepted is a number"
        )
    args = [np.asarray(a) for a in several(args, "args")]
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
        J = np.stack([column(k, i) for i in np.ndindex(a.shape)], axis=-1)
        out.append(J.reshape(J.shape[:-1] + a.shape).astype(a.dtype)[()])
    return as_given(out, many=len(out) > 1)


def _slope(g, x, h, method, at_x=None):
    if method == "complex":
        return g(x + 1j * h).imag / h
    if method == "richardson":
        half = _representable(x, h / 2)
        ratio = (h / half) ** 2  # 4, unless one of them had to give way to x
        wide, narrow = (_slope(g, x, s, "central") for s in (h, half))
        return narrow + (narrow - wide) / (ratio - 1)
    if at_x is None and method != "central":
        at_x = g(x)
    high = at_x if method == "backward" else g(x + h)
    low = at_x if method == "forward" else g(x - h)
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, and is handed on
        return (high - low) / (2 * h if method == "central" else h)


def _representable(x, h):
    with np.errstate(invalid="ignore"):
        return (np.abs(x) + h) - np.abs(x)


def _step(x, method, step):
    if method not in METHODS:
        near = get_close_matches(str(method).lower(), METHODS, n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        known = ", ".join(METHODS)
        raise ValueError(f"method is {method!r}{meant}; accepted are {known}")
    info, p = np.finfo(x.dtype), _ORDER[method]
    with np.errstate(invalid="ignore"):  # no step leads away from inf: NaN
        ulp, wide_ulp = np.spacing(np.abs(x)), np.spacing(np.fmax(1, np.abs(x)))
    if step is None and method == "complex":
        return np.full(x.shape, np.sqrt(info.smallest_normal))
    if step is None:
        return _representable(x, wide_ulp * 2.0 ** (p * info.nmant // (p + 1)))
    step = np.asarray(step)
    numbers = step.dtype.kind in "iuf" and step.size
    if not numbers or not np.all((step > 0) & (step < np.inf)):
        raise ValueError(
            f"step is {_short(step)}; accepted are positive, finite numbers"
        )
    try:
        _, h = np.broadcast_arrays(x, step.astype(x.dtype))
    except ValueError:
        raise ValueError(
            f"step has shape {step.shape}; accepted is a number, or a shape "
            f"that broadcasts with that of x, {x.shape}"
        ) from None
    if method == "complex":
        ulp = np.full(x.shape, info.smallest_subnormal)
    else:
        h = _representable(x, h)
    if np.any(h < (2 * ulp if method == "richardson" else ulp)):
        raise ValueError(
            f"step is {_short(step)} and vanishes next to x = {_short(x)}; "
            f"accepted in {x.dtype} are steps from {2 * np.max(ulp):.1e}"
        )
    return h


def _checked(f, shape, needs):
    """Wrap f: its result as a new array, of one shape, complex if z is."""
    function(f)

    def value(*args):
        nonlocal shape
        y = np.array(f(*(np.array(a)[()] for a in args)))
        if any(np.iscomplexobj(a) for a in args):
            if y.dtype.kind != "c":
                raise TypeError(
                    f"f returned {_short(y)}, dtype {y.dtype}, for a complex "
                    "argument: it throws the imaginary part away; the complex "
                    "step needs an analytic f, without abs, real or float"
                )
        elif y.dtype.kind not in "fiu":
            raise TypeError(
                f"f returned {_short(y)}, dtype {y.dtype}; accepted are real numbers"
            )
        if y.size == 0:
            raise ValueError(
                f"f returned an empty array, of shape {y.shape}; accepted is one "
                "number or more"
            )
        shape = y.shape if shape is None else shape
        if y.shape != shape:
            got = f"f returned shape {y.shape}, not {shape}"
            raise ValueError(f"{got}; {needs}")
        return y

    return value


def _short(x):
    text = np.array2string(np.asarray(x), threshold=4, edgeitems=2)
    return " ".join(text.split())
