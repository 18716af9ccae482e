"""Symbols: the same rules, applied to formulas.

A plain function that is called with symbols returns the formula that it
computes, a graph of operations. To differentiate it is to walk down from its
outermost operation: for each argument the partial derivative, itself a formula,
times the derivative of the argument, found in the same way. What comes out can
be read, evaluated, and differentiated again.

This third engine that reads `utils.rules` shows that it fits on a page. For
real work there is SymPy, which simplifies; here a few rewritings keep zeros and
ones out of sight. A formula is made before there are numbers to look at, so
what the rules do for powers of 0 is not in it; and the walk is recursive, so a
formula nested some hundred deep is too deep for Python.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number, Real

import numpy as np

from utils.arguments import refused
from utils.rules import PARTIALS
from utils.tracing import no_rule
from utils.wengert import SIGNS, Node, wengert_list

__all__ = ["Expression", "Symbol", "differentiate", "evaluate"]

_ZERO, _ONE = np.float64(0), np.float64(1)


class Expression(Node):
    """A formula: an operation on formulas and numbers."""

    __slots__ = ()
    level = -1  # the lowest: duals and variables may carry formulas
    shape, ndim, size, dtype = (), 0, 1, np.dtype(float)
    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__

    def _apply(self, function: Callable, arrays: tuple, static: dict):
        if function not in PARTIALS:
            raise no_rule(f"np.{function.__name__} of a symbol")
        simpler = _rewritten(function, *arrays)
        if simpler is not None:
            return simpler
        result = Expression()
        parents = [a if isinstance(a, Expression) else None for a in arrays]
        result._record(function, arrays, parents)
        return result

    @property
    def value(self):
        raise TypeError(
            f"{self} is a formula without a value; evaluate gives it one"
        )

    def __repr__(self) -> str:
        return self.expression


class Symbol(Expression):
    """A formula that is a name and nothing else."""

    __slots__ = ()

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise refused(name, "name", "a text")
        self._record(name=name)


def _rewritten(function: Callable, a, b=None):
    """The same without a zero or a one, or None if there is none in it."""
    match SIGNS.get(function, ("", 0))[0], a, b:
        case ("*", 0, _) | ("*", _, 0) | ("/", 0, _):
            return _ZERO
        case ("**", _, 0):
            return _ONE
        case ("+", 0, same) | ("+", same, 0) | ("-", same, 0):
            return same
        case ("*", 1, same) | ("*", same, 1) | ("/", same, 1) | ("**", same, 1):
            return same
        case ("-", 0, other) | ("*", -1, other) | ("*", other, -1):
            return -other


def differentiate(f: Expression, x: Expression):
    """Derivative of the formula f with respect to the symbol x.

    Returns
    -------
    Expression or float
        What f uses twice is differentiated once, and used twice again.

    Raises
    ------
    TypeError
        If f is neither formula nor number, or x no symbol.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = Symbol("x"), Symbol("y")
    >>> f = np.sin(x) - y**3
    >>> differentiate(f, x), differentiate(f, y)
    (cos(x), -(3 * y ** 2))
    """
    if not isinstance(x, Symbol):
        raise refused(x, "x", "a Symbol")
    known = {x.index: _ONE}

    def walk(f):
        if f.index not in known:
            terms = [
                partial(*f.values, f) * walk(g)
                for partial, g in zip(PARTIALS.get(f.function, ()), f.parents)
                if g is not None
            ]
            known[f.index] = sum(terms, start=_ZERO)
        return known[f.index]

    return walk(f) if _is_formula(f) else _ZERO


def _is_formula(f) -> bool:
    if not isinstance(f, Expression | Real):
        raise refused(f, "f", "a formula or a number")
    return isinstance(f, Expression)


def evaluate(f: Expression, **values):
    """Value of the formula f where its symbols have the given values.

    Parameters
    ----------
    f
        A formula; a number stays what it is.
    **values
        By the names of the symbols: numbers, arrays, or anything else that
        NumPy's functions take.

    Raises
    ------
    TypeError
        If f is neither formula nor number, or a symbol is left without a
        value or gets what is no number.

    Examples
    --------
    >>> x = Symbol("x")
    >>> float(evaluate(differentiate(x**3, x), x=2.0))
    12.0
    """
    for name, x in values.items():
        if not (isinstance(x, Number) or hasattr(x, "__array__")):
            raise refused(x, name, "a number or array")
    if not _is_formula(f):
        return f
    known = {}
    for node in wengert_list(f):
        if node.function is not None:
            pairs = zip(node.values, node.parents)
            operands = [v if p is None else known[p.index] for v, p in pairs]
            known[node.index] = node.function(*operands)
        elif node.name in values:
            x = values[node.name]
            known[node.index] = np.float64(x) if type(x) in (int, float) else x
        else:
            given = ", ".join(values) or "none"
            raise TypeError(f"{node.name} has no value; given are {given}")
    return known[f.index]
