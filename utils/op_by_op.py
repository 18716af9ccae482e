"""Run a traced function of TensorFlow op by op, and go back over what was run.

TensorFlow runs a graph as a whole and shows its end. `Run` runs the ops of a
graph one after the other on given tensors. Calls of a ``tf.function``, the
branch taken of a ``tf.cond`` and the rounds of a ``tf.while_loop`` are followed
inside, so that what is left is one list of steps without branches: a Wengert
list. Going back over it, each op's registered gradient function is asked for its
ops, and these are run in the same way. So every contribution to every adjoint
is seen, and each step knows its op, and the op its line of code.

Source: reverse mode over such a list, Griewank and Walther, Evaluating
Derivatives (2008), chapter 3.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph

from utils.arguments import refused

__all__ = ["Run", "Step", "Use", "Value", "array_of", "has_slope"]

_SHAPES = {"Shape", "ShapeN", "Size", "Rank", "OnesLike", "ZerosLike"}
_PASSED_OVER = {"NoOp", "Placeholder", "PrintV2"}


class Use(NamedTuple):
    """A value as an argument of a step.

    ``part`` is the step's contribution to the adjoint of the value; None if its
    gradient function lets nothing through. If no adjoint arrived at the step it
    is not ``live``, and ``part`` is a stand-in.
    """

    step: Step
    value: Value
    part: tf.Tensor | None
    live: bool


@dataclass(eq=False)
class Value:
    """One tensor of a run.

    Attributes
    ----------
    tensor
        The eager tensor, or the handle of a variable.
    sources
        The names of the inputs that it depends on, by whatever path.
    step
        The step that made it.
    needed
        Whether the results depend on it.
    uses
        Where it went, if it has sources; filled by `Run.backward`.
    adjoint
        The sum of the contributions, or None.
    """

    tensor: tf.Tensor
    sources: frozenset[str] = frozenset()
    step: Step | None = None
    needed: bool = False
    uses: list[Use] = field(default_factory=list)
    adjoint: tf.Tensor | None = None

    def receive(self, part: tf.Tensor) -> None:
        """Add a contribution to the adjoint."""
        parts = [part] if self.adjoint is None else [self.adjoint, part]
        self.adjoint = tf.add_n(parts)


@dataclass(eq=False)
class Step:
    """One op that was run.

    ``parts`` are its contributions to its inputs. With ``carried``, that input
    went through as it is: out of a branch or loop, or past an assignment.
    """

    op: Any  # a tf.Operation
    frame: Any  # the call that it was part of
    inputs: list[Value]
    outputs: list[Value] = field(default_factory=list)
    parts: list[tf.Tensor | None] = field(default_factory=list)
    carried: int | None = None


class _Frame:
    """The values of one call of one graph."""

    def __init__(self, run, graph, arguments, parent=None, compiled=False):
        self.run, self.graph, self.parent = run, graph, parent
        self.compiled = compiled
        names = [tensor.name for tensor in graph.inputs]
        self.values = dict(zip(names, arguments, strict=False))
        self.outside = {inner.name: outer for outer, inner in graph.captures}

    def __getitem__(self, tensor: tf.Tensor) -> Value:
        if tensor.graph is not self.graph:
            return self.parent[tensor]
        if (value := self.values.get(tensor.name)) is None:
            outer = self.outside[tensor.name]
            known = tf.is_symbolic_tensor(outer)
            value = self.parent[outer] if known else Value(outer)
            self.values[tensor.name] = value
        if value.tensor.dtype == tf.resource:
            return self.run.latest.setdefault(id(value.tensor), value)
        return value


class Run:
    """The steps of a function, forward and back.

    Parameters
    ----------
    roots
        The inputs by name: eager tensors, or handles of variables.
    most
        How many ops to run before giving up.

    Raises
    ------
    TypeError
        If a root is no tensor.
    RuntimeError
        In `forward`, if there are more ops.

    Examples
    --------
    >>> x = tf.constant(3.0)
    >>> run = Run({"x": x})
    >>> f = tf.function(lambda x: tf.sin(x) * x, autograph=False)
    >>> graph = f.get_concrete_function(tf.TensorSpec([])).graph
    >>> results = run.forward(graph, [run.roots["x"]])
    >>> run.backward(results)
    >>> for use in run.roots["x"].uses:
    ...     print(use.step.op.type, f"{use.part:.4f}")
    Mul 0.1411
    Sin -2.9700
    """

    def __init__(self, roots: Mapping[str, tf.Tensor], most: int = 200_000):
        self.roots: dict[str, Value] = {}
        self.latest: dict[int, Value] = {}  # of each variable, its state
        for name, tensor in roots.items():
            if not isinstance(tensor, tf.Tensor):
                raise refused(tensor, f"roots[{name!r}]", "a tensor or handle")
            value = Value(tensor, frozenset([name]))
            if tensor.dtype == tf.resource:
                value = self.latest.setdefault(id(tensor), value)
            self.roots[name] = value
        self.steps: list[Step] = []
        self.most = most
        self._gradients: dict[tf.Operation, tuple] = {}

    def forward(self, graph: Any, arguments: Sequence[Value]) -> list[Value]:
        """Run the ops of a graph, and return its outputs."""
        with tf.GradientTape():  # else tf.py_function forgets what it needs
            return self._run(_Frame(self, graph, arguments))

    def backward(self, results: Sequence[Value]) -> None:
        """Send the adjoint 1 back from each result that has a slope."""
        for value in results:
            value.needed = True
            if has_slope(value.tensor):
                value.receive(tf.ones_like(value.tensor))
        for step in reversed(self.steps):
            if not any(value.needed for value in step.outputs):
                continue
            for value in step.inputs:
                value.needed = True
            if not any(value.sources for value in step.outputs):
                continue
            live = any(value.adjoint is not None for value in step.outputs)
            step.parts = self._parts(step)
            for value, part in zip(step.inputs, step.parts, strict=True):
                if value.sources:
                    value.uses.append(Use(step, value, part, live))
                    if live and part is not None:
                        value.receive(part)

    def _run(self, frame: _Frame) -> list[Value]:
        for op in frame.graph.get_operations():
            if op.type not in _PASSED_OVER:
                inputs = [frame[tensor] for tensor in op.inputs]
                values = self._step(op, frame, inputs)
                names = [tensor.name for tensor in op.outputs]
                frame.values |= zip(names, values, strict=False)
        return [frame[tensor] for tensor in frame.graph.outputs]

    def _step(self, op, frame, inputs) -> list[Value]:
        """Run one op, or what is inside it, and return its outputs."""

        def call(function, arguments):
            attributes = op.node_def.attr
            compiled = frame.compiled or attributes["_XlaMustCompile"].b
            body = frame.graph._get_function(function.name).graph
            return self._run(_Frame(self, body, arguments, frame, compiled))

        kind = op.type.removeprefix("Stateless")
        if kind in ("PartitionedCall", "StatefulPartitionedCall"):
            return call(op.get_attr("f"), inputs)
        if kind in ("If", "Case"):
            if kind == "If":
                branches = (
                    op.get_attr("then_branch"),
                    op.get_attr("else_branch"),
                )
                chosen = 0 if _holds(inputs[0]) else 1
            else:
                branches = op.get_attr("branches")
                chosen = int(inputs[0].tensor)
                if not 0 <= chosen < len(branches):
                    chosen = -1
            made = call(branches[chosen], inputs[1:])
            return [self._carry(op, frame, [inputs[0], v], 1) for v in made]
        if kind == "While":
            while _holds((on := call(op.get_attr("cond"), inputs))[0]):
                inputs = call(op.get_attr("body"), inputs)
            return [self._carry(op, frame, [*on, v], 1) for v in inputs]
        if kind == "Identity" and op.inputs[0].dtype == tf.resource:
            return inputs
        if len(self.steps) >= self.most:
            raise RuntimeError(f"f runs more than {self.most} ops")
        made = _compute(op, [value.tensor for value in inputs], frame.compiled)
        if op.type.startswith(("Assign", "Resource")) and not op.outputs:
            state = self._carry(op, frame, inputs, 0)
            self.latest[id(state.tensor)] = state
            return []
        return self._record(Step(op, frame, inputs), made)

    def _carry(self, op, frame, inputs, carried) -> Value:
        """Make a new value of an input, that depends on the others too."""
        step = Step(op, frame, inputs, carried=carried)
        return self._record(step, [inputs[carried].tensor])[0]

    def _record(self, step, tensors) -> list[Value]:
        sources = frozenset().union(*(value.sources for value in step.inputs))
        if step.op.type in _SHAPES:
            sources = frozenset()
        step.outputs = [Value(tensor, sources, step) for tensor in tensors]
        self.steps.append(step)
        return step.outputs

    def _parts(self, step: Step) -> list[tf.Tensor | None]:
        """Run the gradient function of a step: one contribution for each input."""
        parts = [None] * len(step.inputs)
        if step.carried is not None:
            only = step.outputs[0]
            live = only.adjoint is not None
            parts[step.carried] = only.adjoint if live else only.tensor
            return parts
        if step.op not in self._gradients:
            self._gradients[step.op] = _gradient_ops(step.op)
        graph, made = self._gradients[step.op]
        arrived = [
            Value(_zero(v.tensor) if v.adjoint is None else v.adjoint)
            for v in step.outputs
            if has_slope(v.tensor)
        ]
        run = Run({}, self.most)
        run.latest = self.latest
        frame = _Frame(run, graph, arrived, step.frame, step.frame.compiled)
        run._run(frame)
        for i, part in enumerate(made):
            parts[i] = None if part is None else frame[part].tensor
        return parts


def _zero(tensor: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.ZerosLike(x=tensor)


def has_slope(tensor: tf.Tensor) -> bool:
    """Whether a gradient can arrive: floating, complex, or a list of these."""
    dtype = tensor.dtype
    return dtype.is_floating or dtype.is_complex or dtype == tf.variant


def array_of(tensor: Any) -> np.ndarray | None:
    """Return floating or complex numbers in a dtype of NumPy, else None."""
    dtype = tf.as_dtype(getattr(tensor, "dtype", tf.string))
    if not (dtype.is_floating or dtype.is_complex):
        return None
    array = tensor.numpy()
    return array if array.dtype.kind in "fc" else array.astype(np.float32)


def _holds(value: Value) -> bool:
    return bool(np.any(value.tensor.numpy()))


def _gradient_ops(op: tf.Operation) -> tuple[FuncGraph, list]:
    """Let the registered gradient function of an op build its ops."""
    with op.graph.as_default():
        graph = FuncGraph("gradient")
    with graph.as_default(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about slices made dense
        arrived = [
            tf.compat.v1.placeholder(t.dtype, t.shape) if has_slope(t) else None
            for t in op.outputs
        ]
        graph.inputs = [tensor for tensor in arrived if tensor is not None]
        try:
            function = ops.get_gradient_function(op)
        except LookupError:
            function = None
        if function is None or not graph.inputs:
            return graph, []
        parts = function(op, *arrived)
        parts = parts if isinstance(parts, list | tuple) else [parts]
        make = tf.convert_to_tensor
        return graph, [part if part is None else make(part) for part in parts]


def _compute(op: tf.Operation, tensors: list, compiled: bool) -> Sequence[Any]:
    """Run one op of a graph on eager tensors."""
    if op.type == "Const":
        return [tf.constant(tf.make_ndarray(op.get_attr("value")))]
    slopes = [has_slope(t) and t.dtype != tf.variant for t in tensors]
    if compiled and any(slopes) and all(map(has_slope, op.outputs)):

        @tf.function(jit_compile=True, autograph=False)
        def by_itself(*given):
            given = list(
                given
            )  # XLA wants the others, shapes say, as constants
            mixed = [
                given.pop(0) if slope else tensor
                for slope, tensor in zip(slopes, tensors, strict=True)
            ]
            graph = tf.compat.v1.get_default_graph()
            dtypes = [output.dtype for output in op.outputs]
            attributes = dict(op.node_def.attr)
            copy = graph.create_op(op.type, mixed, dtypes, attrs=attributes)
            return copy.outputs

        given = [t for t, slope in zip(tensors, slopes, strict=True) if slope]
        return by_itself.get_concrete_function(*given)(*given)
    attributes = []
    for attribute in op.op_def.attr:
        given = op.get_attr(attribute.name)
        if attribute.type == "shape":
            given = execute.make_shape(given, attribute.name)
        elif attribute.type == "list(shape)":
            given = [execute.make_shape(s, attribute.name) for s in given]
        attributes += attribute.name, given
    count = len(op.outputs)
    made = execute.execute(
        op.type, count, tensors, tuple(attributes), context.context()
    )
    return made if isinstance(made, list) else []
