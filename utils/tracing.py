"""How NumPy's functions reach the rules of differentiation.

A traced value stands where a plain function f expects a number or an array. Python hands it
each operator, NumPy each call: ``np.sin(x)`` becomes ``x.__array_ufunc__(np.sin, ...)``,
``np.sum(x)`` becomes ``x.__array_function__(np.sum, ...)``. Here all are broken down into
operations of one form,

    function(*arrays, **static)

with arrays that may be traced, and settings (an axis, a shape, an index) that may not. What an
operation does to a tangent, an adjoint or a symbol is said by ``_apply`` in the subclasses
`Dual`, `Variable` and `Expression`; the derivatives they look up in `utils.rules`.

Derivatives nest: each one that is computed traces on a new, higher level. An operation belongs
to the highest level among its arguments; what is below is a constant to it, and its value is
computed by the same call one level down.

References
----------
NumPy's enhancement proposals 13 (``__array_ufunc__``) and 18 (``__array_function__``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import count

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

__all__ = ["Traced", "apply", "bare", "new_level", "no_rule"]

_levels = count(1)


def new_level() -> int:
    """Return a level above all that are in use."""
    return next(_levels)


def apply(function: Callable, *arrays, **static):
    """Carry out one operation, on the highest level that is found among its arrays."""
    top = None
    for a in arrays:
        if isinstance(a, Traced) and (top is None or a.level > top.level):
            top = a
    return function(*arrays, **static) if top is None else top._apply(function, arrays, static)


def bare(x):
    """Return the plain number or array at the bottom of a traced value, or x itself."""
    while isinstance(x, Traced):
        x = x.value
    return x


def no_rule(call: str) -> TypeError:
    """Return the error for a function that has no derivative here."""
    return TypeError(
        f"{call} has no rule of differentiation here; utils.rules lists those that have one, "
        "and f has to be made of them"
    )


def _operator(function: Callable) -> tuple[Callable, Callable]:
    def method(self, other):
        return apply(function, self, np.asarray(other) if type(other) is list else other)

    def reflected(self, other):
        return apply(function, np.asarray(other) if type(other) is list else other, self)

    return method, reflected


def _comparison(function: Callable) -> Callable:
    return lambda self, other: function(bare(self), bare(other))


class Traced:
    """A value whose operators and NumPy functions lead to ``_apply``.

    Attributes
    ----------
    value
        A number, an array, or a traced value of a lower level.
    level : int
        The level of the derivative that it belongs to.
    """

    __slots__ = ("level", "value")

    def _apply(self, function: Callable, arrays: tuple, static: dict):
        raise NotImplementedError

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        call = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        if "out" in kwargs:
            raise TypeError(f"{call} (out=, or +=) would write a traced value into an array; "
                            f"{_NEW_ARRAY}")  # fmt: skip
        if kwargs or method != "__call__":
            raise no_rule(" with ".join([call, *(f"{key}=" for key in kwargs)]))
        inputs = [np.asarray(a) if isinstance(a, list | tuple) else a for a in inputs]
        return ufunc(*map(bare, inputs)) if ufunc in _COMPARISONS else apply(ufunc, *inputs)

    def __array_function__(self, function, types, args, kwargs):
        call = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
        if function in _QUESTIONS:
            return function(*map(bare, args), **kwargs)
        if function not in _FUNCTIONS:
            raise no_rule(call)
        steps = _FUNCTIONS[function]
        accepted = steps.__code__.co_varnames[: steps.__code__.co_argcount]
        for key in kwargs.keys() - set(accepted):
            raise TypeError(f"{call} of a traced value takes {', '.join(accepted)}; got {key}=")
        return steps(*args, **kwargs)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"a {type(self).__name__} does not fit into a NumPy array, which would lose its "
            f"derivative; {_NEW_ARRAY}"
        )

    def __float__(self):
        raise TypeError(
            f"float() would lose the derivative of a {type(self).__name__}; use NumPy's functions, "
            "np.sin and not math.sin"
        )

    def __setitem__(self, index, value):
        raise TypeError(f"the entries of a {type(self).__name__} cannot be written; {_NEW_ARRAY}")

    __hash__ = object.__hash__
    __add__, __radd__ = _operator(operator.add)
    __sub__, __rsub__ = _operator(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul)
    __truediv__, __rtruediv__ = _operator(operator.truediv)
    __pow__, __rpow__ = _operator(operator.pow)
    __matmul__, __rmatmul__ = _operator(np.matmul)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)
    __eq__, __ne__ = _comparison(operator.eq), _comparison(operator.ne)

    def __neg__(self):
        return apply(operator.neg, self)

    def __pos__(self):
        return self

    def __abs__(self):
        return apply(np.absolute, self)

    def __bool__(self):
        return bool(bare(self))

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index):
        return apply(getitem, self, index=index)

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    dtype = property(lambda self: self.value.dtype)
    T = property(lambda self: np.transpose(self))

    def reshape(self, *shape):
        return np.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes):
        return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    def sum(self, axis=None, keepdims=False):
        return np.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis=None, keepdims=False):
        return np.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis=None, keepdims=False):
        return np.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis=None, keepdims=False):
        return np.min(self, axis=axis, keepdims=keepdims)


# Operations that move numbers: arrays in front, settings behind the star.


def getitem(x, *, index):
    return x[index]


def scatter(x, *, index, shape):
    """The transpose of getitem: zeros, to which x is added at index."""
    if isinstance(x, Traced):
        return apply(scatter, x, index=index, shape=shape)
    whole = np.zeros(shape, x.dtype)
    np.add.at(whole, index, x)
    return whole


def reshape(x, *, shape):
    return np.reshape(x, shape)


def transpose(x, *, axes):
    return np.transpose(x, axes)


def broadcast(x, *, shape):
    return np.broadcast_to(x, shape)


def concatenate(*parts, axis):
    return np.concatenate(parts, axis)


def where(a, b, *, mask):
    return np.where(mask, a, b)


# NumPy's functions, broken down into operations.


def _reduction(function: Callable) -> Callable:
    def steps(a, axis=None, keepdims=False):
        axis = range(a.ndim) if axis is None else normalize_axis_tuple(axis, a.ndim)
        return apply(function, a, axis=tuple(axis), keepdims=keepdims)

    return steps


def _transpose(a, axes=None):
    axes = range(a.ndim)[::-1] if axes is None else normalize_axis_tuple(axes, a.ndim)
    return apply(transpose, a, axes=tuple(axes))


def _swapaxes(a, axis1, axis2):
    axes = list(range(a.ndim))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return np.transpose(a, axes)


def _concatenate(arrays, axis=0):
    parts = [a if isinstance(a, Traced) else np.asarray(a) for a in arrays]
    return apply(concatenate, *parts, axis=normalize_axis_tuple(axis, parts[0].ndim)[0])


def _stack(arrays, axis=0):
    return np.concatenate([np.expand_dims(a, axis) for a in arrays], axis)


def _where(condition, x, y):
    return apply(where, x, y, mask=bare(condition))


def _clip(a, a_min=None, a_max=None):
    a = a if a_min is None else np.maximum(a, a_min)
    return a if a_max is None else np.minimum(a, a_max)


def _dot(a, b):
    if np.ndim(a) > 2 or np.ndim(b) > 2:
        raise no_rule("np.dot of more than two dimensions (np.matmul has one)")
    return a @ b if np.ndim(a) and np.ndim(b) else a * b


_FUNCTIONS = {
    np.sum: _reduction(np.sum),
    np.mean: _reduction(np.mean),
    np.max: _reduction(np.max),
    np.amax: _reduction(np.max),
    np.min: _reduction(np.min),
    np.amin: _reduction(np.min),
    np.reshape: lambda a, shape: apply(reshape, a, shape=shape),
    np.ravel: lambda a: np.reshape(a, -1),
    np.squeeze: lambda a, axis=None: np.reshape(a, np.squeeze(bare(a), axis).shape),
    np.expand_dims: lambda a, axis: np.reshape(a, np.expand_dims(bare(a), axis).shape),
    np.broadcast_to: lambda array, shape: apply(broadcast, array, shape=shape),
    np.transpose: _transpose,
    np.swapaxes: _swapaxes,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.where: _where,
    np.clip: _clip,
    np.dot: _dot,
    np.outer: lambda a, b: np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1)),
}

#: What is answered for the plain value: the result has no derivative.
_COMPARISONS = {
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.isfinite, np.isinf, np.isnan, np.signbit,
}  # fmt: skip
_QUESTIONS = {
    np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.argmax, np.argmin, np.argsort,
    np.any, np.all, np.allclose, np.isclose, np.array_equal,
}  # fmt: skip
_NEW_ARRAY = "make a new array, with np.stack, np.concatenate or np.where"
