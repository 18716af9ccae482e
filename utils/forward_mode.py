"""Forward mode: each value carries its tangent from the inputs to the result.

A dual number is a value and a tangent: the derivative of the value along one
direction in the space of the inputs. An operation computes the value of its
result as always, and the tangent by the chain rule, as the sum over its
arguments of partial derivative times tangent. So one run of f gives the
derivative along one direction, a Jacobian-vector product (JVP), whatever the
number of outputs. A Jacobian takes one run for each input.

Values are computed as f computes them, so loops and branches are no obstacle:
the derivative is that of the path that was taken.

References
----------
Griewank and Walther, *Evaluating Derivatives*, second edition, SIAM 2008;
Baydin, Pearlmutter, Radul and Siskind, "Automatic differentiation in machine
learning: a survey", Journal of Machine Learning Research 18 (2018) 153.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from utils.arguments import alike, as_given, basis, call, real, several
from utils.array_functions import BILINEAR, LINEAR, REDUCTIONS, kept_shape
from utils.rules import PARTIALS, one
from utils.tracing import Traced, new_level, no_rule
from utils.wengert import Node, listed, parameter_names

__all__ = ["Dual", "derivative", "jacobian", "jvp", "trace"]


class Dual(Node):
    """A value and its tangent.

    Parameters
    ----------
    value
        A floating-point number or array.
    tangent
        Its derivative, in the same shape; 0 if left out.

    Examples
    --------
    >>> x = Dual(3.0, 1.0)
    >>> x * x + 1
    Dual(10.0, 6.0)
    """

    __slots__ = ("tangent",)

    def __init__(self, value, tangent=None):
        self.level, self.value = 0, real(value, "value")
        tangent = np.zeros(self.shape) if tangent is None else tangent
        self.tangent = alike(tangent, self.value, "tangent", "value")

    def _apply(self, function: Callable, arrays: tuple, static: dict) -> Dual:
        values, parents = self._arguments(arrays)
        tangents = [None if p is None else p.tangent for p in parents]
        value = function(*values, **static)
        tangent = _push(function, values, tangents, value, static)
        return _dual(type(self), self.level, value, tangent)

    def __repr__(self) -> str:
        return f"Dual({self.value}, {self.tangent})"


class _Recorded(Dual):
    """A dual number that keeps its operation, for `trace`."""

    __slots__ = ()

    def _apply(self, function, arrays, static):
        result = super()._apply(function, arrays, static)
        result._record(function, *self._arguments(arrays), static)
        return result


def _dual(kind: type[Dual], level: int, value, tangent) -> Dual:
    dual = object.__new__(kind)  # past the checks of __init__
    dual.level, dual.value, dual.tangent = level, value, tangent
    return dual


def _push(function, values, tangents, value, static):
    """Tangent of value = function(*values); that of a constant is None."""
    if function in PARTIALS:
        parts = [
            t if partial is one else t * partial(*values, value)
            for t, partial in zip(tangents, PARTIALS[function])
            if t is not None
        ]
        tangent = sum(parts[1:], start=parts[0])
        if tangent.shape != value.shape:
            tangent = np.broadcast_to(tangent, value.shape)
        return tangent
    if function in REDUCTIONS:
        (x,), (t,), partial = values, tangents, REDUCTIONS[function]
        if partial is not one:
            axis = static["axis"]
            y = np.reshape(value, kept_shape(x, axis))
            t = t * partial(x, y, axis)
        return np.sum(t, **static)
    if function in LINEAR:
        parts = [
            np.zeros(np.shape(x), value.dtype) if t is None else t
            for x, t in zip(values, tangents)
        ]
        return function(*parts, **static)
    if function in BILINEAR:
        (a, b), (s, t) = values, tangents
        if s is None or t is None:
            return function(a, t) if s is None else function(s, b)
        return function(s, b) + function(a, t)
    raise no_rule(f"np.{function.__name__}")


def derivative(f: Callable, x):
    """Derivative of a function of one variable.

    Parameters
    ----------
    f
        Takes a number and returns a number or an array; or works entry by
        entry on an array of points.
    x
        A floating-point number, or an array of points.

    Returns
    -------
    numpy.ndarray
        Of the shape of f(x), from one run of f. Where f(x) does not depend on
        x it is 0.

    Raises
    ------
    TypeError
        If x is not real and floating-point, f returns anything but one real
        number or array, or f calls a function that has no rule.
    ValueError
        If x is empty, or f makes another shape of an array of points.

    Examples
    --------
    >>> float(derivative(lambda x: x**3, 2.0))
    12.0
    >>> float(derivative(lambda x: derivative(lambda y: y**3, x), 2.0))
    12.0
    """
    x = real(x, "x")
    tangent = _jvp(f, [x], [np.ones(x.shape, x.dtype)[()]])
    if x.shape and tangent.shape != x.shape:
        raise ValueError(
            f"f made shape {tangent.shape} of x of shape {x.shape}; derivative "
            "takes an f that works entry by entry, jvp and jacobian take any"
        )
    return tangent


def jvp(f: Callable, x, v):
    """Jacobian-vector product: the derivative of f at x along v.

    Parameters
    ----------
    f
        Takes x, or the arguments in the tuple x; returns a number or an array.
    x
        A floating-point number or array, or a tuple of them.
    v
        The direction: real numbers in the shape of x, or a tuple like x.

    Returns
    -------
    numpy.ndarray
        J v, of the shape of the result of f, from one run of f.

    Raises
    ------
    TypeError, ValueError
        As in `derivative`, or if v is not like x.

    Examples
    --------
    >>> import numpy as np
    >>> def f(x, y):
    ...     return np.sin(x) - y**3
    >>> f"{jvp(f, (3.0, 5.0), (1, 0)):.4f} {jvp(f, (3.0, 5.0), (0, 1)):.4f}"
    '-0.9900 -75.0000'
    """
    return _jvp(f, *_with_direction(x, v))


def jacobian(f: Callable, *args):
    """Jacobian of f, column by column: one run of f for each input.

    Parameters
    ----------
    f
        Takes ``args``, returns a number or an array.
    *args
        Floating-point numbers or arrays.

    Returns
    -------
    numpy.ndarray
        For each argument an array of shape (shape of the result of f) + (shape
        of the argument). One argument: no tuple.

    Raises
    ------
    TypeError, ValueError
        As in `derivative`.

    Examples
    --------
    >>> import numpy as np
    >>> def f(x):
    ...     return np.stack([x[0] * x[1], x[0] - x[1], 2 * x[1]])
    >>> jacobian(f, np.array([3.0, 5.0]))
    array([[ 5.,  3.],
           [ 1., -1.],
           [ 0.,  2.]])
    """
    args = several(args, "args")
    blocks = []
    for k, x in enumerate(args):
        before, behind = [None] * k, [None] * (len(args) - k - 1)
        columns = [_jvp(f, args, [*before, e, *behind]) for e in basis(x)]
        shape = columns[0].shape + x.shape
        blocks.append(np.reshape(np.stack(columns, axis=-1), shape))
    return as_given(blocks, many=len(blocks) > 1)


def trace(f: Callable, x, v) -> list[Dual]:
    """Run f as `jvp` does, and list what was computed: the evaluation trace.

    Returns
    -------
    list of Dual
        The arguments of f, by its own names for them, then the operations v1,
        v2, ... in the order in which they were carried out; the last is the
        result. Each has ``name``, ``expression``, ``value``, ``tangent`` and
        ``parents``.

    Raises
    ------
    TypeError, ValueError
        As in `jvp`, or if the result of f does not depend on x.

    Examples
    --------
    >>> import numpy as np
    >>> def f(x, y):
    ...     return np.sin(x) - y**3
    >>> for row in trace(f, (3.0, 5.0), (1.0, 0.0)):
    ...     name = f"{row.name} = {row.expression}"
    ...     print(f"{name:12} {row.value:9.4f} {row.tangent:8.4f}")
    x = x           3.0000   1.0000
    y = y           5.0000   0.0000
    v1 = sin(x)     0.1411  -0.9900
    v2 = y ** 3   125.0000   0.0000
    v3 = v1 - v2 -124.8589  -0.9900
    """
    values, directions = _with_direction(x, v)
    level, inputs = new_level(), []
    for name, *pair in zip(parameter_names(f, len(values)), values, directions):
        inputs.append(_dual(_Recorded, level, *pair))
        inputs[-1]._record(name=name)
    return listed(inputs, call(f, *inputs))


def _jvp(f: Callable, values: list, tangents: list):
    """Derivative of f; an argument whose tangent is None is held fixed."""
    level = new_level()
    pairs = zip(values, tangents)
    args = [x if t is None else _dual(Dual, level, x, t) for x, t in pairs]
    y = call(f, *args)
    if not (isinstance(y, Dual) and y.level == level):
        return np.zeros(y.shape, values[0].dtype)[()]
    # A copy, for the tangent may be a view of v.
    return (
        y.tangent if isinstance(y.tangent, Traced) else np.array(y.tangent)[()]
    )


def _with_direction(x, v) -> tuple[list, list]:
    values = several(x, "x")
    if not isinstance(x, tuple):
        return values, [alike(v, values[0], "v", "x")]
    if not isinstance(v, tuple) or len(v) != len(x):
        raise TypeError(
            f"v is {v!r:.50}; accepted is a tuple of {len(x)} directions, like x"
        )
    places = enumerate(zip(v, values))
    return values, [alike(d, a, f"v[{i}]", f"x[{i}]") for i, (d, a) in places]
