"""Values that NumPy's functions and Python's operators hand to the engines.

A `Traced` value stands where a plain function f expects a number or an array.
Python hands it each operator, and NumPy each call: ``np.sin(x)`` becomes
``x.__array_ufunc__(np.sin, ...)``, and ``np.sum(x)`` becomes
``x.__array_function__(np.sum, ...)``. All end in operations of one form::

    apply(function, *arrays, **static)

with arrays that may be traced, and settings (an axis, a shape, an index) that
may not. What an operation does to a tangent, an adjoint or a symbol is said by
``_apply`` in `Dual`, `Variable` and `Expression`.

Derivatives nest: each that is computed traces on a new, higher level. An
operation belongs to the highest level among its arrays. What is below is
constant to it, and its value is computed by the same function one level down.

References
----------
NumPy enhancement proposals 13 (``__array_ufunc__``) and 18
(``__array_function__``); for the levels, Siskind and Pearlmutter, "Nesting
forward-mode AD in a functional framework", Higher-Order and Symbolic
Computation 21 (2008) 361-376.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from itertools import count

import numpy as np

__all__ = [
    "FUNCTIONS",
    "Traced",
    "apply",
    "bare",
    "getitem",
    "new_level",
    "no_rule",
]

#: {function of NumPy: what it does, in operations}; see `array_functions`.
FUNCTIONS: dict[Callable, Callable] = {}

_levels = count(1)
_INSTEAD = "make a new array, with np.stack, np.concatenate or np.where"


def new_level() -> int:
    """Return a level above all that are in use."""
    return next(_levels)


def apply(function: Callable, *arrays, **static):
    """Carry out one operation, on the highest level among its arrays."""
    top = None
    for a in arrays:
        if isinstance(a, Traced) and (top is None or a.level > top.level):
            top = a
    if top is None:
        return function(*arrays, **static)
    return top._apply(function, arrays, static)


def bare(x):
    """Return the plain number or array that x traces, or x itself."""
    while isinstance(x, Traced):
        x = x.value
    return x


def no_rule(call: str) -> TypeError:
    """Return the error for a function without a derivative."""
    return TypeError(
        f"{call} has no rule of differentiation here; f may use the functions "
        "that utils.rules and utils.array_functions list"
    )


def getitem(x, *, index):
    """Take entries of x: what ``x[index]`` is, as an operation."""
    return x[index]


def _array(x):
    return np.asarray(x) if type(x) in (list, tuple) else x


def _operator(function: Callable) -> tuple[Callable, Callable]:
    def method(self, other):
        return apply(function, self, _array(other))

    def reflected(self, other):
        return apply(function, _array(other), self)

    return method, reflected


def _comparison(function: Callable) -> Callable:
    return lambda self, other: function(bare(self), bare(other))


def _method(function: Callable) -> Callable:
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


class Traced:
    """A value whose operators and NumPy functions lead to ``_apply``.

    Attributes
    ----------
    value
        A number, an array, or a traced value of a lower level.
    level : int
        That of the derivative that it belongs to.
    """

    __slots__ = ("level", "value")

    def _apply(self, function: Callable, arrays: tuple, static: dict) -> Traced:
        raise NotImplementedError

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if kwargs or method != "__call__":
            call = f"np.{ufunc.__name__}" + f".{method}" * (
                method != "__call__"
            )
            if "out" in kwargs:
                raise TypeError(
                    f"{call} would write into an array (out= or +=); {_INSTEAD}"
                )
            raise no_rule(" with ".join([call, *(f"{k}=" for k in kwargs)]))
        if ufunc in _COMPARISONS:
            return ufunc(*map(bare, inputs))
        return apply(ufunc, *map(_array, inputs))

    def __array_function__(self, function, types, args, kwargs):
        if function in _QUESTIONS:
            return function(*map(bare, args), **kwargs)
        module = function.__module__.replace("numpy", "np", 1)
        call = f"{module}.{function.__name__}"
        if function not in FUNCTIONS:
            raise no_rule(call)
        steps = FUNCTIONS[function]
        accepted = inspect.signature(steps).parameters
        for key in kwargs.keys() - accepted.keys():
            raise TypeError(
                f"{call} of a {self._kind} takes no {key}=; accepted are "
                + ", ".join(accepted)
            )
        return steps(*args, **kwargs)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"an array made of a {self._kind} would lose its derivative; "
            f"{_INSTEAD}, and NumPy's functions, not another library's"
        )

    def __float__(self):
        raise TypeError(
            f"float() of a {self._kind} would lose its derivative; use NumPy's "
            "functions, np.sin and not math.sin"
        )

    def __setitem__(self, index, value):
        raise TypeError(
            f"the entries of a {self._kind} cannot be written; {_INSTEAD}"
        )

    _kind = property(lambda self: type(self).__name__)
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
    sum, mean = _method(np.sum), _method(np.mean)
    max, min = _method(np.max), _method(np.min)

    def reshape(self, *shape):
        return np.reshape(self, shape if len(shape) > 1 else shape[0])

    def transpose(self, *axes):
        return np.transpose(self, axes if len(axes) > 1 else (*axes, None)[0])


# What is asked of the plain value, for the answer has no derivative.
_COMPARISONS = {np.equal, np.not_equal, np.less, np.less_equal}
_COMPARISONS |= {np.greater, np.greater_equal, np.isfinite, np.isinf, np.isnan}
_QUESTIONS = {np.shape, np.ndim, np.size, np.zeros_like, np.ones_like}
_QUESTIONS |= {np.argmax, np.argmin, np.argsort, np.any, np.all}
_QUESTIONS |= {np.allclose, np.isclose, np.array_equal}
