"""The rules of differentiation, once.

`PARTIALS` holds the elementary derivatives of school calculus: for each function one partial
derivative per argument, as a function of the arguments and of the result. So the entry

    np.multiply: (lambda a, b, y: b, lambda a, b, y: a)

says that for y = a * b the derivative with respect to a is b, and with respect to b is a. The
partials are made of NumPy's functions and Python's operators. Whatever answers to those can be
put in: a number, an array, a dual number, a variable that is being traced, a symbol.

`utils.forward_mode` multiplies a partial by a tangent, on the way from the inputs to the result;
`utils.reverse_mode` multiplies it by an adjoint, on the way back; `utils.symbolic` multiplies it
by another expression. The rules are the same; what is multiplied, and in which order, is not.

Arrays add no calculus, but three more tables: `REDUCTIONS` (many numbers to one: the partial
with respect to each), `LINEAR` and `BILINEAR` (functions that are their own derivative, and
how reverse mode transposes them).

**Conventions where there is no derivative.** Where the slopes from the left and from the right
differ, the rule gives their mean, which is also what a central difference gives: 0 for ``abs``
at 0, one half for each argument of ``maximum`` and ``minimum`` where they are equal, and equal
shares for the entries that attain ``np.max`` or ``np.min``. (A mean is right where kinks cancel
in a sum, but no convention is right for all programs: max(max(x, 0), 0) - max(x, 0) is 0
for all x, its derivative by these rules is -1/4 at 0.) Where a function jumps (``sign``, ``floor``,
``heaviside``) the rule gives 0, as beside the jump.

**The ends of the domain** are left to floating-point arithmetic, whose infinities and NaN
pass through, and to NumPy's warnings: at 0 the derivative of ``sqrt`` and ``log`` is inf, and that
of ``hypot(0, 0)`` is NaN. Powers take some thought, and have it at `_power_a` and `_power_b`.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from utils import tracing

__all__ = ["BILINEAR", "LINEAR", "PARTIALS", "REDUCTIONS", "one"]


def one(*_):
    """The partial derivative that need not be multiplied."""
    return 1


def zero(*_):
    """The slope of a step, beside the jumps."""
    return 0


def _power_a(a, b, y):
    # b * a**(b - 1). For b == 0 the factor 0 must not meet 0**-1 = inf: there the exponent stays
    # 0. The logarithm of a is not needed, so a constant power of a negative a is no problem.
    return b * a ** (b - (b != 0))


def _power_b(a, b, y):
    # y * log(a). Where y == 0 it is 0, as 0**b is for all b > 0: log(0 + 1) is taken there. For
    # a < 0 the power is real at whole b only, and the logarithm says NaN. (The log of a Python
    # number would be float64, whatever y is.)
    a = a if hasattr(a, "dtype") else y.dtype.type(a)
    return y * np.log(a + (y == 0))


def _share(x, y, axis):
    # Of the entries that attain an extreme y, each has an equal share in it.
    attained = x == y
    return (attained / np.sum(attained, axis=axis, keepdims=True)).astype(x.dtype)


#: {function: (partial with respect to its first argument, ...)}; each takes (*arguments, result).
PARTIALS = {
    # arithmetic
    np.add: (one, one),
    np.subtract: (one, lambda a, b, y: -1),
    np.multiply: (lambda a, b, y: b, lambda a, b, y: a),
    np.divide: (lambda a, b, y: 1 / b, lambda a, b, y: -y / b),
    np.negative: (lambda x, y: -1,),
    np.reciprocal: (lambda x, y: -y * y,),
    # powers and roots
    np.power: (_power_a, _power_b),
    np.square: (lambda x, y: 2 * x,),
    np.sqrt: (lambda x, y: 0.5 / y,),
    np.cbrt: (lambda x, y: 1 / (3 * y * y),),
    np.hypot: (lambda a, b, y: a / y, lambda a, b, y: b / y),
    # exponentials and logarithms
    np.exp: (lambda x, y: y,),
    np.exp2: (lambda x, y: y * math.log(2),),
    np.expm1: (lambda x, y: np.exp(x),),
    np.log: (lambda x, y: 1 / x,),
    np.log2: (lambda x, y: 1 / (x * math.log(2)),),
    np.log10: (lambda x, y: 1 / (x * math.log(10)),),
    np.log1p: (lambda x, y: 1 / (1 + x),),
    np.logaddexp: (lambda a, b, y: np.exp(a - y), lambda a, b, y: np.exp(b - y)),
    # trigonometry
    np.sin: (lambda x, y: np.cos(x),),
    np.cos: (lambda x, y: -np.sin(x),),
    np.tan: (lambda x, y: 1 + y * y,),
    np.arcsin: (lambda x, y: 1 / np.sqrt((1 - x) * (1 + x)),),
    np.arccos: (lambda x, y: -1 / np.sqrt((1 - x) * (1 + x)),),
    np.arctan: (lambda x, y: 1 / (1 + x * x),),
    np.arctan2: (
        lambda a, b, y: b / (a * a + b * b),
        lambda a, b, y: -a / (a * a + b * b),
    ),
    # hyperbolic functions
    np.sinh: (lambda x, y: np.cosh(x),),
    np.cosh: (lambda x, y: np.sinh(x),),
    np.tanh: (lambda x, y: 1 - y * y,),
    np.arcsinh: (lambda x, y: 1 / np.sqrt(1 + x * x),),
    np.arccosh: (lambda x, y: 1 / np.sqrt((x - 1) * (x + 1)),),
    np.arctanh: (lambda x, y: 1 / ((1 - x) * (1 + x)),),
    # kinks
    np.absolute: (lambda x, y: np.sign(x),),
    np.maximum: (
        lambda a, b, y: np.heaviside(a - b, 0.5),
        lambda a, b, y: np.heaviside(b - a, 0.5),
    ),
    np.minimum: (
        lambda a, b, y: np.heaviside(b - a, 0.5),
        lambda a, b, y: np.heaviside(a - b, 0.5),
    ),
    # jumps
    np.sign: (zero,),
    np.floor: (zero,),
    np.ceil: (zero,),
    np.trunc: (zero,),
    np.rint: (zero,),
    np.heaviside: (zero, lambda a, b, y: a == 0),
}
# Python's operators are the same functions, and quicker than NumPy's on single numbers.
PARTIALS |= {
    operator.add: PARTIALS[np.add],
    operator.sub: PARTIALS[np.subtract],
    operator.mul: PARTIALS[np.multiply],
    operator.truediv: PARTIALS[np.divide],
    operator.neg: PARTIALS[np.negative],
    operator.pow: PARTIALS[np.power],
}

#: {function: the partial of y = function(x, axis) with respect to each entry of x}; each takes
#: (x, y, axis), with the axes of y kept.
REDUCTIONS = {
    np.sum: one,
    np.mean: lambda x, y, axis: y.size / x.size,
    np.max: _share,
    np.min: _share,
}


def unbroadcast(adjoint, shape):
    """Transpose of broadcasting: sum over the axes along which an array was repeated."""
    if adjoint.shape == shape:
        return adjoint
    new = adjoint.ndim - len(shape)
    repeated = [new + i for i, n in enumerate(shape) if n == 1]
    return np.reshape(np.sum(adjoint, axis=(*range(new), *repeated)), shape)


def _transpose_axes(i, adjoint, x, axes):
    return np.transpose(adjoint, np.argsort(axes))


def _split(i, adjoint, *parts, axis):
    start = sum(part.shape[axis] for part in parts[:i])
    return adjoint[(slice(None),) * axis + (slice(start, start + parts[i].shape[axis]),)]


def _where_side(i, adjoint, *sides, mask):
    side = np.where(mask, adjoint, 0) if i == 0 else np.where(mask, 0, adjoint)
    return unbroadcast(side, np.shape(sides[i]))


#: {function: its transpose}, which takes an adjoint of the result to one of argument i:
#: transpose(i, adjoint, *arguments, **settings). The derivative is the function itself, applied to
#: the tangents.
LINEAR = {
    tracing.getitem: lambda i, adjoint, x, index: tracing.scatter(adjoint, index=index, shape=x.shape),
    tracing.scatter: lambda i, adjoint, x, index, shape: adjoint[index],
    tracing.reshape: lambda i, adjoint, x, shape: np.reshape(adjoint, x.shape),
    tracing.transpose: _transpose_axes,
    tracing.broadcast: lambda i, adjoint, x, shape: unbroadcast(adjoint, x.shape),
    tracing.concatenate: _split,
    tracing.where: _where_side,
}


def _matmul(i, adjoint, a, b):
    # As matrices: a vector is a row on the left of @, and a column on its right.
    rows = a if a.ndim > 1 else np.reshape(a, (1, -1))
    columns = b if b.ndim > 1 else np.reshape(b, (-1, 1))
    batch = adjoint.shape[: adjoint.ndim - (a.ndim > 1) - (b.ndim > 1)]
    adjoint = np.reshape(adjoint, (*batch, rows.shape[-2], columns.shape[-1]))
    if i == 0:
        return np.reshape(unbroadcast(adjoint @ np.swapaxes(columns, -1, -2), rows.shape), a.shape)
    return np.reshape(unbroadcast(np.swapaxes(rows, -1, -2) @ adjoint, columns.shape), b.shape)


#: {function: its transpose}, likewise, but linear in each argument while the other is held: the
#: derivative is the product rule.
BILINEAR = {np.matmul: _matmul}
