"""Reverse mode: f is run and recorded, then adjoints go back to the inputs.

The adjoint of a value is the derivative of the result with respect to it; the
result's own is 1. The record is walked backward, and each operation adds to
the adjoint of each of its arguments: its own adjoint times the partial
derivative. A value that was used several times gets several contributions, so
its adjoint is complete only when everything computed from it has been visited.
The reverse of the order of computation sees to that, and visits each operation
once, without recursion. One walk gives the derivative of one number with
respect to all inputs, a vector-Jacobian product (VJP), whatever the number of
inputs. A Jacobian takes one walk for each output.

The price is memory: all values are kept until the walk is over.

References
----------
Griewank and Walther, *Evaluating Derivatives*, second edition, SIAM 2008;
Baydin, Pearlmutter, Radul and Siskind, "Automatic differentiation in machine
learning: a survey", Journal of Machine Learning Research 18 (2018) 153.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from utils.arguments import (
    alike,
    as_given,
    basis,
    call,
    real,
    refused,
    several,
)
from utils.array_functions import (
    BILINEAR,
    LINEAR,
    REDUCTIONS,
    kept_shape,
    unbroadcast,
)
from utils.rules import PARTIALS, one
from utils.tracing import Traced, new_level, no_rule
from utils.wengert import Node, listed, parameter_names, wengert_list

__all__ = ["Variable", "gradient", "jacobian", "sweep", "trace", "vjp"]


class Variable(Node):
    """A value that keeps the operation that it comes from.

    Parameters
    ----------
    value
        A floating-point number or array.
    name
        For traces and drawings.

    Attributes
    ----------
    adjoint
        After a `sweep`, the derivative of the result with respect to this
        value; None where no path leads to the result.

    Examples
    --------
    >>> a, b = Variable(2.0, "a"), Variable(1.0, "b")
    >>> for node in sweep((a + b) * (b + 1)):
    ...     print(f"{node.expression:17} {node.value} {node.adjoint}")
    (a + b) * (b + 1) 6.0 1.0
    b + 1             2.0 3.0
    a + b             3.0 2.0
    b                 1.0 5.0
    a                 2.0 2.0
    """

    __slots__ = ("adjoint",)

    def __init__(self, value, name: str = "", *, level: int = 0):
        if not isinstance(name, str):
            raise refused(name, "name", "a text")
        self.level, self.adjoint = level, None
        self.value = real(value, "value")
        self._record(name=name)

    def _apply(
        self, function: Callable, arrays: tuple, static: dict
    ) -> Variable:
        if not _is_known(function):
            raise no_rule(f"np.{function.__name__}")
        values, parents = self._arguments(arrays)
        result = object.__new__(Variable)  # past the checks of __init__
        result.level, result.adjoint = self.level, None
        result.value = function(*values, **static)
        result._record(function, values, parents, static)
        return result

    def __repr__(self) -> str:
        return f"Variable({self.value}{self.name and f', {self.name!r}'})"


def _is_known(function: Callable) -> bool:
    """Whether one of the tables, to which a reader may add, has a derivative."""
    return (
        function in PARTIALS
        or function in REDUCTIONS
        or function in LINEAR
        or function in BILINEAR
    )


def sweep(output: Variable, adjoint=None) -> Iterator[Variable]:
    """Walk back from the output, and give each node its adjoint.

    Parameters
    ----------
    output
        What was computed.
    adjoint
        Its adjoint, in its shape. None stands for 1 at each entry.

    Yields
    ------
    Variable
        Each node that the output depends on, once, at the moment when its
        adjoint is complete and not yet passed on. Nothing is done but by
        iterating.

    Raises
    ------
    TypeError, ValueError
        If the output is no `Variable`, or the adjoint not like it.
    """
    if not isinstance(output, Variable):
        raise refused(output, "output", "a Variable")
    nodes = wengert_list(output)
    for node in nodes:
        node.adjoint = None
    if adjoint is None:
        adjoint = np.ones(output.shape, output.dtype)[()]
    output.adjoint = alike(adjoint, output, "adjoint", "output")
    for node in reversed(nodes):
        yield node
        for i, parent in enumerate(node.parents):
            if parent is not None:
                part, known = _pull(node, i), parent.adjoint
                parent.adjoint = part if known is None else known + part


def _pull(node: Variable, i: int):
    """What a node adds to the adjoint of its argument at place i."""
    function, values, adjoint = node.function, node.values, node.adjoint
    if function in PARTIALS:
        partial = PARTIALS[function][i]
        if partial is not one:
            adjoint = adjoint * partial(*values, node.value)
        return unbroadcast(adjoint, values[i].shape)
    if function in REDUCTIONS:
        (x,), partial, axis = values, REDUCTIONS[function], node.static["axis"]
        kept = kept_shape(x, axis)
        adjoint = np.reshape(adjoint, kept)
        if partial is not one:
            y = np.reshape(node.value, kept)
            adjoint = adjoint * partial(x, y, axis)
        return np.broadcast_to(adjoint, x.shape)
    transposed = LINEAR.get(function) or BILINEAR[function]
    return transposed(i, adjoint, *values, **node.static)


def gradient(f: Callable, *args):
    """Gradient of a function that returns a number.

    Parameters
    ----------
    f
        Takes ``args`` and returns one number.
    *args
        Floating-point numbers or arrays.

    Returns
    -------
    numpy.ndarray
        For each argument the derivatives, in its shape and dtype, from one run
        of f and one walk back; 0 where f does not depend on it. One argument:
        no tuple.

    Raises
    ------
    TypeError
        If an argument is not real and floating-point, f returns anything but
        one real number, or f calls a function that has no rule.
    ValueError
        If an argument is empty, or f returns an array.

    Examples
    --------
    >>> import numpy as np
    >>> gx, gy = gradient(lambda x, y: np.sin(x) - y**3, 3.0, 5.0)
    >>> f"{gx:.4f} {gy:.4f}"
    '-0.9900 -75.0000'
    """
    inputs, y = _run(f, several(args, "args"))
    if y.shape:
        raise ValueError(
            f"f returned an array of shape {y.shape}; gradient needs one number, "
            "vjp and jacobian take arrays"
        )
    return as_given(_adjoints(inputs, y), many=len(args) > 1)


def vjp(f: Callable, x, u):
    """Vector-Jacobian product: the gradient of the inner product <u, f(x)>.

    Parameters
    ----------
    f
        Takes x, or the arguments in the tuple x; returns a number or an array.
    x
        A floating-point number or array, or a tuple of them.
    u
        Real numbers in the shape of the result of f.

    Returns
    -------
    numpy.ndarray
        J^T u, like x, from one run of f and one walk back.

    Raises
    ------
    TypeError, ValueError
        As in `gradient`, or if u does not have the shape of the result of f.

    Examples
    --------
    >>> import numpy as np
    >>> vjp(lambda x: x**2, np.array([1.0, 2.0, 3.0]), [1, 1, 10])
    array([ 2.,  4., 60.])
    """
    inputs, y = _run(f, several(x, "x"))
    adjoints = _adjoints(inputs, y, alike(u, y, "u", "the result of f"))
    return as_given(adjoints, many=isinstance(x, tuple))


def jacobian(f: Callable, *args):
    """Jacobian of f, row by row: one walk back for each output.

    Takes and returns what `utils.forward_mode.jacobian` does.

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
    inputs, y = _run(f, several(args, "args"))
    rows = [_adjoints(inputs, y, e) for e in basis(y)]
    blocks = [
        np.reshape(np.stack([row[k] for row in rows]), y.shape + x.shape)
        for k, x in enumerate(inputs)
    ]
    return as_given(blocks, many=len(args) > 1)


def trace(f: Callable, x, u=1.0) -> list[Variable]:
    """Run f and walk back as `vjp` does, and list what was computed.

    Returns
    -------
    list of Variable
        The arguments of f, by its own names for them, then the operations v1,
        v2, ... in the order in which they were carried out; the walk back took
        them from the last to the first. Each has ``name``, ``expression``,
        ``value``, ``adjoint`` and ``parents``.

    Raises
    ------
    TypeError, ValueError
        As in `vjp`, or if the result of f does not depend on x.

    Examples
    --------
    >>> import numpy as np
    >>> def f(x, y):
    ...     return np.sin(x) - y**3
    >>> for row in trace(f, (3.0, 5.0)):
    ...     name = f"{row.name} = {row.expression}"
    ...     print(f"{name:12} {row.value:9.4f} {row.adjoint:8.4f}")
    x = x           3.0000  -0.9900
    y = y           5.0000 -75.0000
    v1 = sin(x)     0.1411   1.0000
    v2 = y ** 3   125.0000  -1.0000
    v3 = v1 - v2 -124.8589   1.0000
    """
    values = several(x, "x")
    inputs, y = _run(f, values, parameter_names(f, len(values)))
    nodes = listed(inputs, y)
    _adjoints(inputs, y, alike(u, y, "u", "the result of f"))
    return nodes


def _run(
    f: Callable, values: list, names=None
) -> tuple[list[Variable], Traced]:
    level, names = new_level(), names or [""] * len(values)
    inputs = [Variable(x, name, level=level) for x, name in zip(values, names)]
    return inputs, call(f, *inputs)


def _adjoints(inputs: list[Variable], y, adjoint=None) -> list:
    """Walk back from y once, and return the adjoints of the inputs."""
    for x in inputs:
        x.adjoint = None
    if isinstance(y, Variable) and y.level == inputs[0].level:
        for _ in sweep(y, adjoint):
            pass
    results = [adjoint]
    for x in inputs:
        g = np.zeros(x.shape, x.dtype) if x.adjoint is None else x.adjoint
        # Sums hand an adjoint on as it is, but no two results share memory.
        if not isinstance(g, Traced):
            alone = g.base is None and all(g is not other for other in results)
            g = g if alone and g.dtype == x.dtype else np.array(g, x.dtype)
        results.append(g)
    return results[1:]
