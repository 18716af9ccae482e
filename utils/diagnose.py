"""Find out why a gradient is None, zero, NaN or infinite, and which line did it.

`explain_gradient` runs a function of TensorFlow once forward and once backward,
one op at a time, and keeps what every op got and gave. None, zero, NaN and inf
then have an address: an op that let nothing through, passed on zeros, or made
the first bad number. Every op remembers the line of code that created it.

**How.** The function is traced to a graph. Its ops are run one by one on the
values given, which makes a Wengert list; calls of a ``tf.function``, the branch
taken of a ``tf.cond`` and the rounds of a ``tf.while_loop`` are followed inside.
Going back over the list, each op's registered gradient function is asked for
its ops, and these are run too. Variables that f assigns to are put back.

**What a graph does not show** (NumPy, a Python number made of a tensor) makes
the tracing fail. Then f is run eagerly, and what the tape says is compared with
what f does when an input moves: a likelihood, and said as one.

Source: reverse mode over a Wengert list is Griewank and Walther, Evaluating
Derivatives (2008); gradient functions come from TensorFlow's own registry.
"""

from __future__ import annotations

import inspect
import linecache
import sysconfig
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph

from utils.graphs import TRIVIAL, draw

__all__ = ["Explanation", "Finding", "Place", "explain_gradient"]

_SHAPE_ONLY = {"Shape", "ShapeN", "Size", "Rank", "OnesLike", "ZerosLike"}
_SKIPPED = {"NoOp", "Placeholder", "PrintV2"}
_MOST_OPS = 200_000  # that are run one by one: about a minute
_LIBRARIES = (
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    str(Path(__file__).parent),
)
_ADVICE = {
    "StopGradient": "Blocking is its purpose; take it out if you want a slope.",
    "Round Rint Floor Ceil FloorDiv": "It is flat between its jumps. Use a "
    "smooth function, or a straight-through form.",
    "Cast Bitcast": "Integers have no slope. Stay in floating point.",
    "ArgMax ArgMin TopKV2": "An index has no slope. Weight by softmax instead.",
    "Greater GreaterEqual Less LessEqual Equal NotEqual": "A comparison has no "
    "slope. Use a sigmoid, or give the value itself a path.",
    "AssignVariableOp AssignAddVariableOp AssignSubVariableOp": "A path ends "
    "where a variable is assigned. Pass the tensor on instead.",
    "PyFunc PyFuncStateless": "NumPy is not differentiated. Use TensorFlow's "
    "ops, or tf.custom_gradient.",
    "Relu Relu6 Elu Selu LeakyRelu": "The unit is off. Smaller steps, another "
    "start, or leaky_relu keep it alive.",
    "Minimum Maximum ClipByValue": "Outside of the range nothing is learned. "
    "Clip forward only: forward_backward(clipped, x).",
    "Sigmoid Tanh Softmax LogSoftmax Erf": "It is saturated. Scale its input, "
    "or hand the logits to the loss.",
    "Mul MatMul BatchMatMulV2 Conv2D Einsum": "The other factor is 0 (initial "
    "weights, a mask?).",
    "Select SelectV2": "The other branch was chosen.",
    "GatherV2 ResourceGather StridedSlice Slice": "These entries are not used.",
}
_ADVICE = {op: text for key, text in _ADVICE.items() for op in key.split()}


@dataclass(frozen=True)
class Place:
    """An op that cut a path, passed on zeros or made a bad number.

    Attributes
    ----------
    kind
        "cut", "zero", "bad" (the first contribution, going backward, that is
        NaN or inf) or "value" (the first such value, going forward).
    op, name
        Its type, ``"Log"``, and its name in the graph.
    file, line, code
        Where your code created it. ``line`` is 0 if no such line is known.
    why
        What happened, and what usually helps.
    values
        For bad numbers, at the first bad entry: ``index``, ``inputs``,
        ``output``, ``upstream`` (the adjoint of the output) and
        ``contribution``; None where the shapes do not match.
    """

    kind: str
    op: str
    name: str
    file: str
    line: int
    code: str
    why: str
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        name = f" ({self.name})" if "/" in self.name else ""
        cell = "ipykernel" in self.file or self.file.startswith("<ipython")
        file = "of the cell" if cell else f"of {Path(self.file).name}"
        where = f"line {self.line} {file}" if self.line else "no line known"
        lines = [f"{self.op}{name}, {where}"]
        lines += [f"  {self.code}"] if self.code else []
        if self.values:
            at = ", ".join(map(str, self.values["index"]))
            shown = {k: v for k, v in self.values.items() if k != "index"}
            texts = [f"{k} {_short(v)}" for k, v in shown.items()]
            lines += textwrap.wrap(f"at [{at}]: " + ", ".join(texts), 60)
        return "\n".join(lines + textwrap.wrap(self.why, 60))


@dataclass(frozen=True)
class Finding:
    """What became of the gradient along one input or variable.

    Attributes
    ----------
    name
        The name of the argument, or of the variable.
    disease
        "fine", "None", "zero", "NaN" or "inf"; "incomplete" where f, run
        eagerly, moves in another way than the gradient says; "unknown".
    gradient
        The gradient of the sum of the results, or None.
    places
        The ops that did it, from the result backward. For "fine": where some
        of the paths are cut, and what makes some of the entries zero.
    note
        A sentence where there is no place to name.
    """

    name: str
    disease: str
    gradient: np.ndarray | None = None
    places: tuple[Place, ...] = ()
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the disease is "fine"."""
        return self.disease == "fine"

    def _share(self) -> str:
        """Count the entries that are bad, where it is not all of them."""
        g = self.gradient
        if g is None or self.disease in ("zero", "incomplete"):
            return ""
        bad, what = ~np.isfinite(g), ""
        if self.ok:
            bad, what = g == 0, "0 in "
        share = f"{what}{bad.sum()} of {g.size}"
        return f" ({share})" if 0 < bad.sum() and g.size > 1 else ""


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain_gradient` found: prints as a short table.

    Attributes
    ----------
    findings
        One for each input and variable. ``explanation["x"]`` gives the one of
        that name.
    value
        The sum of the results, or None if f could not be run.
    ops, passes
        How many ops were run forward, and how many backward passes were made.
    places
        If the value is NaN or inf: the op that made the first such number.
    problem
        Why f could not be traced or followed, in one line; else "".
    """

    findings: tuple[Finding, ...]
    value: float | complex | None
    ops: int = 0
    passes: int = 0
    places: tuple[Place, ...] = ()
    problem: str = ""
    _roots: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every finding is fine."""
        return all(finding.ok for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"{name!r}; there are {[f.name for f in self.findings]}")

    def __repr__(self) -> str:
        rows = {}
        for f in self.findings:
            shared = f.disease, f.note, tuple(map(str, f.places))
            rows.setdefault(shared, []).append(f.name + f._share())
        value = "unknown" if self.value is None else _short(self.value)
        text = f"value {value}; {self.ops} ops run one by one"
        if self.problem:
            text = f"value {value}; {self.problem}"
        lines = textwrap.wrap(text, 64)
        for place in self.places:
            lines.append(textwrap.indent(str(place), "  "))
        for (disease, note, places), names in rows.items():
            names = names[:8] + [f"and {len(names) - 8} more"] * (len(names) > 8)
            head = textwrap.wrap(", ".join(names), 52)
            lines += [f"{disease:11} {head[0]}"]
            lines += [f"{'':12}{more}" for more in head[1:]]
            lines += textwrap.wrap(note, 60, initial_indent="  ", subsequent_indent="  ")
            lines += [textwrap.indent(place, "  ") for place in places]
        return "\n".join(lines)

    def draw(self, name: str, ax: Axes | None = None) -> Axes:
        """Draw the paths from an input to the result; the culprit is marked.

        Parameters
        ----------
        name
            The name of a finding.
        ax
            As in `utils.graphs.draw`, which draws it. If there are more than 12
            ops, a single path is drawn, through the first of the places.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        KeyError
            If there is no such finding.
        ValueError
            If no path leads from the input to the result.
        """
        finding = self[name]
        if name not in self._roots:
            raise ValueError(f"{name!r} has no path to the result to be drawn")
        graph, marked = _picture(self._roots[name], name, finding.places)
        return draw(graph, ax, highlight=marked)


def explain_gradient(
    f: Callable, *inputs: Any, variables: Iterable = ()
) -> Explanation:
    """Say for each input of f whether its gradient is fine, and if not, why.

    Parameters
    ----------
    f
        A function that returns a tensor, or several, which are summed as a tape
        sums them; a ``tf.function``; a Keras layer or model. A compiled model
        takes ``(x, y)`` and stands for its loss in training.
    *inputs
        The arguments of f, at which it is explained: tensors, arrays and
        floating-point numbers; variables, which f gets as they are. All else
        is handed to f and not reported, but for integers, which have no slope.
    variables
        Variables to report even if f does not use them. Trainable ones that f
        uses, and those of a model, are reported anyway.

    Returns
    -------
    Explanation
        Prints as a table; has ``findings``, ``["name"]`` and ``draw``.

    Raises
    ------
    TypeError
        If f cannot be called, or returns None.
    ValueError
        If there is nothing to report: no input, and no variable in f.

    Notes
    -----
    f is traced once and run once, with one backward pass. If f cannot be traced
    or followed, that is said in ``problem``, and f is run eagerly: one gradient,
    and four values for each input.

    Examples
    --------
    >>> def f(x):
    ...     return tf.where(x > 0, tf.math.log(x), 0.0)
    >>> explain_gradient(f, tf.constant([0.0, 1.0]))
    value 0; 5 ops run one by one
    NaN         x (1 of 2)
      Log, line 2 of <doctest utils.diagnose.explain_gradient[0]>
        return tf.where(x > 0, tf.math.log(x), 0.0)
      at [0]: inputs (0,), output -inf, upstream 0, contribution nan
      0 times an infinite slope: what is not used is still
      differentiated. Give the op a safe input: where(ok, x, 1).
    """
    if not callable(f):
        raise TypeError(f"f is {f!r:.60}; explain_gradient needs a function")
    compiled = getattr(f, "compiled", False) and len(inputs) == 2
    model, names = f, _argument_names(f, inputs)
    if compiled:
        x, y = inputs
        inputs, names = (x,), ["x"]

        def f(x):
            return model.compute_loss(x, y, model(x, training=True))

    elif not inspect.isroutine(model):
        variables = [*variables, *getattr(model, "trainable_variables", ())]
    ...
