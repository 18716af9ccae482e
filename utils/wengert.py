"""The Wengert list: the operations of a computation, one after the other.

Each operation is a `Node` that knows its arguments, so a result knows, as a
graph, everything that it was computed from. Sorted by the order of computation
the graph is a list, in which each node stands behind its arguments. Forward
mode fills in tangents from its top, reverse mode adjoints from its end.

References
----------
Wengert, "A simple automatic derivative evaluation program", Communications of
the ACM 7 (1964) 463-464.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from itertools import count

import numpy as np

from utils.arguments import refused
from utils.tracing import Traced, bare, getitem

__all__ = ["SIGNS", "Node", "listed", "parameter_names", "wengert_list"]

_clock = count()
_NO_SETTINGS: dict = {}

#: {operator: its sign, and how strongly it binds}
SIGNS = {
    operator.add: ("+", 1),
    operator.sub: ("-", 1),
    operator.mul: ("*", 3),
    operator.truediv: ("/", 3),
    operator.pow: ("**", 7),
    np.add: ("+", 1),
    np.subtract: ("-", 1),
    np.multiply: ("*", 3),
    np.divide: ("/", 3),
    np.power: ("**", 7),
    np.matmul: ("@", 3),
}


class Node(Traced):
    """A traced value that can tell where it comes from.

    Attributes
    ----------
    function, values, static
        The operation: ``value = function(*values, **static)``. None, () and {}
        for an input.
    parents
        For each of the values its node, or None for a constant.
    index : int
        Grows from operation to operation.
    name : str
        "" if none was given.
    """

    __slots__ = ("function", "index", "name", "parents", "static", "values")

    def _arguments(self, arrays: tuple) -> tuple[tuple, tuple]:
        """Values and parents of an operation on this level."""
        kind, level = type(self), self.level
        values, parents = [], []
        for a in arrays:
            mine = isinstance(a, kind) and a.level == level
            values.append(a.value if mine else a)
            parents.append(a if mine else None)
        return tuple(values), tuple(parents)

    def _record(
        self, function=None, values=(), parents=(), static=None, name=""
    ):
        self.function, self.static = function, static or _NO_SETTINGS
        self.values, self.parents = values, parents
        self.index, self.name = next(_clock), name

    @property
    def expression(self) -> str:
        """The operation on the nearest nodes with a name, as ``x1 * x2``."""
        return _spell(self, 0) if self.function else self.name


def wengert_list(output: Node, inputs: Iterable[Node] = ()) -> list[Node]:
    """List the inputs, and all that the output was computed from, in order.

    Examples
    --------
    >>> from utils.reverse_mode import Variable
    >>> a, b = Variable(2.0, "a"), Variable(1.0, "b")
    >>> [node.expression for node in wengert_list((a + b) * (b + 1))]
    ['a', 'b', 'a + b', 'b + 1', '(a + b) * (b + 1)']
    """
    for node in (*inputs, output):
        if not isinstance(node, Node):
            raise refused(node, "a node", "what an engine of utils computed")
    found = {node.index: node for node in (*inputs, output)}
    stack = [output]
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent.index not in found:
                found[parent.index] = parent
                stack.append(parent)
    return [found[index] for index in sorted(found)]


def listed(inputs: list[Node], output) -> list[Node]:
    """Return the Wengert list, and call v1, v2, ... what has no name in it."""
    if not isinstance(output, Node) or output.level != inputs[0].level:
        raise ValueError("the result of f does not depend on its arguments")
    nodes = wengert_list(output, inputs)
    taken = {node.name for node in nodes}
    numbers = (name for k in count(1) if (name := f"v{k}") not in taken)
    for node in nodes:
        node.name = node.name or next(numbers)
    return nodes


def parameter_names(f: Callable, n: int) -> list[str]:
    """Return the names that f has for n arguments, or x1, x2, ..."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not tell
        parameters = []
    names = [p.name for p in parameters if p.kind < p.VAR_POSITIONAL]
    return names[:n] if len(names) >= n else [f"x{i + 1}" for i in range(n)]


def _spell(node: Node, binds: int) -> str:
    """Write a node as it can stand beside a sign that binds so strongly."""
    if node.function is operator.neg:
        text, own = "-" + _operand(node, 0, 6), 5
    elif node.function in SIGNS:
        sign, own = SIGNS[node.function]
        left = _operand(node, 0, own + (sign == "**"))
        text = f"{left} {sign} {_operand(node, 1, own + 1)}"
    elif node.function is getitem:
        return f"{_operand(node, 0, 9)}[{node.static['index']}]"
    else:
        operands = (_operand(node, i, 0) for i in range(len(node.values)))
        return f"{node.function.__name__}({', '.join(operands)})"
    return f"({text})" if own < binds else text


def _operand(node: Node, i: int, binds: int) -> str:
    parent = node.parents[i]
    if parent is not None and (parent.name or parent.function):
        return parent.name or _spell(parent, binds)
    value = bare(node.values[i])
    return f"array{value.shape}" if np.ndim(value) else f"{value:g}"
