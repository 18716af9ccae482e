"""What a diagnosis says: in words, as a table, in a drawing.

`utils.diagnose.explain_gradient` searches; here is how it reports. A `Place` is
an op with the line of code that created it, a `Finding` what became of one
gradient, an `Explanation` all findings on one function.
"""

from __future__ import annotations

import linecache
import sysconfig
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from tensorflow.python.framework import ops

from utils.graphs import TRIVIAL, draw
from utils.op_by_op import Run, Step, Use, Value, array_of, has_slope

__all__ = ["Explanation", "Finding", "Place"]

_LIBRARIES = (
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    str(Path(__file__).parent),
    "<frozen",
)
_WRAPPERS = ("wrapper", "error_handler", "op_dispatch_handler")
_ADVICE = {
    "StopGradient": "Its purpose is to cut. Take it out, or move it.",
    "Round Rint Floor Ceil FloorDiv": "Flat between its jumps. Use a smooth "
    "function, or a straight-through form.",
    "Cast Bitcast": "Integers have no slope. Stay in floating point.",
    "ArgMax ArgMin": "An index has no slope. Weight by softmax instead.",
    "Greater GreaterEqual Less LessEqual Equal NotEqual": "A comparison has no "
    "slope. Use a sigmoid, or a path for the value itself.",
    "AssignVariableOp AssignAddVariableOp AssignSubVariableOp": "A path ends "
    "where a variable is assigned. Pass the tensor on instead.",
    "PyFunc PyFuncStateless": "NumPy is not differentiated. Use TensorFlow's "
    "ops, or tf.custom_gradient.",
}
_FLAT = {
    "Sign": "It is flat. Use tanh, or a straight-through form.",
    "Relu Relu6": "The unit is off. Try leaky_relu, another start, or smaller "
    "steps.",
    "Minimum Maximum ClipByValue": "Nothing is learned outside of the range. "
    "To clip the value alone: forward_backward(clipped, x).",
    "Sigmoid Tanh Softmax Erf": "It is saturated. Scale what goes in, or give "
    "the logits to the loss.",
    "Mul MatMul BatchMatMulV2 Conv2D Einsum": "The other factor is 0: a mask, "
    "or weights that start at 0?",
    "Add AddV2 BiasAdd": "What it sums up, going back, cancels.",
    "Cast": "Too small for this precision. Scale the loss.",
    "Select SelectV2": "The other branch was chosen.",
    "GatherV2 ResourceGather StridedSlice Slice": "These entries are not used.",
}
_ADVICE = {op: text for key, text in _ADVICE.items() for op in key.split()}
_FLAT = {op: text for key, text in _FLAT.items() for op in key.split()}
_UNUSED = (
    "Times an upstream of 0 that is NaN: what is not used is differentiated "
    "too. Make the input safe: where(ok, x, 1)."
)
_AVOID = "Keep its input away from there: tf.maximum(x, 1e-12), say."
_WHOLE = (
    "All paths are whole. If a tape says None: is the input watched before it "
    "is used, is f called in the block, is the tape asked once?"
)


@dataclass(frozen=True)
class Place:
    """An op that cut a path, has the slope zero, or made a bad number.

    Attributes
    ----------
    kind
        "cut", "zero", "bad" (the first contribution, going backward, that is
        NaN or inf) or "value" (the first such value, going forward).
    op, name
        Its type, ``"Log"``, and its name in the graph.
    file, line, code
        Where your code created it; ``line`` is 0 if that is not known.
    why
        What happened, and what usually helps.
    values
        For bad numbers, at the first bad entry: ``index``, ``inputs``,
        ``output``, ``upstream`` (the adjoint of the output), ``contribution``;
        None where the shapes do not match.
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
        cell = "ipykernel" in self.file or self.file.startswith("<ipython")
        file = "of a cell" if cell else f"of {Path(self.file).name}"
        scope = "/".join(self.name.split("/")[-2:])
        name = f" ({scope})" if "/" in scope else ""
        line = f"line {self.line} {file}" if self.line else "line unknown"
        lines = textwrap.wrap(f"{self.op}{name}, {line}:", 60)
        code = self.code if len(self.code) < 60 else self.code[:58] + " ..."
        lines += [f"  {code}"] if code else []
        if self.values:
            index, *rest = self.values.items()
            shown = ", ".join(f"{k} {_short(v)}" for k, v in rest)
            at = f"at [{_short(index[1])}]: " if index[1] else ""
            lines += textwrap.wrap(at + shown, 60)
        return "\n".join([*lines, *textwrap.wrap(self.why, 60)])


@dataclass(frozen=True)
class Finding:
    """What became of the gradient along one input or variable.

    Attributes
    ----------
    name
        Of the argument or variable.
    disease
        "fine", "None", "zero", "NaN" or "inf"; of an f that could only be run
        eagerly also "incomplete" (f moves in another way than the gradient
        says) and "unknown".
    gradient
        Of the sum of the results, or None.
    places
        The ops that did it, from the input on. For "fine": where some of the
        paths are cut, and what makes some of the entries zero.
    note
        What no op stands for.
    """

    name: str
    disease: str
    gradient: np.ndarray | None = None
    places: tuple[Place, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        g = self.gradient
        if g is None or self.disease in ("zero", "incomplete"):
            return self.name
        some = (g == 0) if self.disease == "fine" else ~np.isfinite(g)
        if not some.any() or some.all():
            return self.name
        zero = "0 in " if self.disease == "fine" else ""
        return f"{self.name} ({zero}{some.sum()} of {g.size})"


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain_gradient` found: prints as a short table.

    Attributes
    ----------
    findings
        One for each input and variable; ``explanation["x"]`` is that of x.
    value
        The sum of the results; None if f could not be run.
    ops, passes
        How many ops were run forward, and how many backward passes.
    places
        If the value is NaN or inf: the op that made the first such number.
    problem
        Why f could not be traced or followed, in one line; else empty.
    """

    findings: tuple[Finding, ...]
    value: Any
    ops: int = 0
    passes: int = 0
    places: tuple[Place, ...] = ()
    problem: str = ""
    _run: Run | None = None

    @property
    def ok(self) -> bool:
        """Whether every finding is fine."""
        return all(finding.disease == "fine" for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        found = {finding.name: finding for finding in self.findings}
        if name not in found:
            raise KeyError(f"{name!r} is not among {[*found]}")
        return found[name]

    def __repr__(self) -> str:
        rows: dict[tuple, list[str]] = {}
        for f in self.findings:
            alike = f.disease, f.note, tuple(map(str, f.places))
            rows.setdefault(alike, []).append(str(f))
        value = "unknown" if self.value is None else _short(self.value)
        done = self.problem or f"{self.ops} ops run one by one"
        lines = textwrap.wrap(f"value {value}; {done}", 64)
        lines += [textwrap.indent(str(p), "  ") for p in self.places]
        for (disease, note, places), names in rows.items():
            more = [f"and {len(names) - 6} more"] if len(names) > 6 else []
            text = ", ".join([*names[:6], *more])
            gap = " " * 12
            lines += textwrap.wrap(
                text, 64, initial_indent=f"{disease:12}", subsequent_indent=gap
            )
            lines += [f"  {line}" for line in textwrap.wrap(note, 62)]
            new = [p for p in places if p not in map(str, self.places)]
            lines += [textwrap.indent(place, "  ") for place in new]
        whole = self.ok and not any(f.places for f in self.findings)
        return "\n".join(lines + textwrap.wrap(_WHOLE if whole else "", 64))

    def draw(self, name: str, ax: Axes | None = None) -> Axes:
        """Draw the paths from an input to the result, with the places marked.

        Parameters
        ----------
        name
            The name of a finding.
        ax
            As in `utils.graphs.draw`. Beyond 12 ops one path is drawn, through
            the first of the places.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        KeyError
            If there is no such finding.
        ValueError
            If f was not followed, or does not use this input.
        """
        places = self[name].places
        graph, marked = _picture(self._run, name, places)
        if len(graph) < 2:
            raise ValueError(f"no path from {name!r} to the result to be drawn")
        return draw(graph, ax, highlight=marked)


def place_of(kind: str, step: Step, use: Use | None = None) -> Place:
    """Say what an op did, where it was created, and what helps."""
    op, values = step.op, {}
    lines, _ = lines_of(op)
    file, line = lines[-1] if lines else ("", 0)
    if kind in ("bad", "value"):
        values = _values(step, use)
        why = _why_bad(values)
        if "_gradient_op_type" in op.node_def.attr:
            why = why.replace("Its slope", "Its custom gradient")
    elif kind == "zero":
        why = _FLAT.get(op.type, "Its slope is 0 here.")
        if np.all(array_of(use.part) != 0):
            why = "What it sends back and what others send cancel."
    elif "_gradient_op_type" in op.node_def.attr:
        why = "Its custom gradient returns None."
    else:
        why = _ADVICE.get(op.type, _why_cut(op))
    code = linecache.getline(file, line).strip()
    return Place(kind, op.type, op.name, file, line, code, why, values)


def _why_cut(op: tf.Operation) -> str:
    try:
        ops.get_gradient_function(op)
    except LookupError:
        return (
            "It has no gradient function, and TensorFlow raises a LookupError. "
            "Write one: tf.custom_gradient."
        )
    return "Its gradient function lets nothing through."


def _values(step: Step, use: Use | None) -> dict[str, Any]:
    """Collect the numbers at a bad entry, one that went bad here if possible."""
    output = array_of(step.outputs[0].tensor)
    array = output if use is None else array_of(use.part)

    def spread(other: np.ndarray | None) -> np.ndarray:
        try:
            return np.broadcast_to(other, array.shape)
        except (TypeError, ValueError):  # unknown, or known to be bad
            return np.full(array.shape, np.nan if is_bad(other) else None)

    tensors = [v.tensor for v in step.inputs if has_slope(v.tensor)]
    inputs = [spread(array_of(tensor)) for tensor in tensors]
    bad = ~np.isfinite(array)
    sound = np.all([_is_finite(a) for a in inputs], axis=0)
    wanted = bad & (sound if output.shape == array.shape else ~sound)
    index = tuple(np.argwhere(wanted if wanted.any() else bad)[0].tolist())
    values = {"index": index, "inputs": tuple(a[index] for a in inputs)}
    values["output"] = spread(output)[index]
    if use is not None:
        ups = [v.adjoint for v in step.outputs if v.adjoint is not None]
        values["upstream"] = spread(array_of(ups[0]))[index]
        values["contribution"] = array[index]
    return values


def _is_finite(array: np.ndarray) -> np.ndarray:
    """Tell for each entry; an unknown one, None, counts as finite."""
    return np.isfinite(
        np.where(np.equal(array, None), 0, array).astype(complex)
    )


def _why_bad(values: dict[str, Any]) -> str:
    """Tell the ways apart in which a number goes bad."""
    inputs = [x for x in values["inputs"] if x is not None]
    output, upstream = values["output"], values.get("upstream")
    forward = "contribution" not in values
    if not np.isfinite(inputs).all():
        return "What goes in is NaN or inf already. Mend that first."
    if output is None:
        output = 0.0
    if np.isinf(output) and max(map(abs, inputs), default=0) > 1:
        return (
            "It overflows. Use a stable form: softplus, reduce_logsumexp, "
            "log_softmax, from_logits=True."
        )
    if np.isnan(output):
        why = "What goes in is outside of its domain."
    elif forward or np.isinf(values["contribution"]) or upstream == 0:
        why = f"{'It' if forward else 'Its slope'} is infinite here."
    else:
        why = "Its slope is 0/0 here, or 0 times inf."
    return f"{why} {_UNUSED if upstream == 0 else _AVOID}"


def first_bad(value: Value) -> Place:
    """Go back from a bad value to the op that made the first one."""
    while step := value.step:
        bad = [v for v in step.inputs if is_bad(array_of(v.tensor))]
        if not bad:
            return place_of("value", step)
        value = bad[0]
    name = ", ".join(value.sources) or "a constant"
    why = f"{name} holds NaN or inf from the start."
    return Place("value", "input", name, "", 0, "", why)


def is_bad(array: np.ndarray | None) -> bool:
    """Whether any entry is NaN or infinite."""
    return array is not None and not np.isfinite(array).all()


def _short(value: Any) -> str:
    if value is None or isinstance(value, tuple):
        return "·" if value is None else ", ".join(map(_short, value))
    return f"{value:.4g}"


def lines_of(op: tf.Operation) -> tuple[list[tuple[str, int]], list[str]]:
    """Return the reader's lines that led to an op, and what the last called."""
    lines, called = [], []
    for frame in op.traceback:
        if is_reader(frame.filename):
            lines.append((frame.filename, frame.lineno))
            called = []
        elif frame.name not in _WRAPPERS:
            called.append(frame.name)
    return lines, called


def is_reader(file: str) -> bool:
    return (
        not file.startswith(_LIBRARIES) and "__autograph_generated" not in file
    )


def _picture(
    run: Run | None, name: str, places: tuple[Place, ...]
) -> tuple[nx.MultiDiGraph, list]:
    """Make a graph of the steps between an input and the results."""
    graph, marked = nx.MultiDiGraph(), []
    if run is None or name not in run.roots:
        return graph, marked
    root, guilty = run.roots[name], {p.name: p.kind for p in places}
    did = {
        "cut": lambda part: part is None,
        "bad": lambda part: is_bad(array_of(part)),
        "zero": lambda part: part is not None and (array_of(part) == 0).any(),
        "value": lambda part: False,
    }

    def add(node: str, label: str, value: Value, kind: str) -> None:
        shown = {"label": label, "kind": kind}
        for key, tensor in ("value", value.tensor), ("adjoint", value.adjoint):
            array = array_of(tensor)
            if tensor is None or array is not None:
                shown[key] = array
        graph.add_node(node, **shown)

    add(name, name, root, "input")
    drawn = {root: name}
    for number, step in enumerate(run.steps):
        inputs = [value for value in step.inputs if value in drawn]
        if not inputs or not any(value.needed for value in step.outputs):
            continue
        node = drawn[inputs[-1]]
        if step.carried != 1 and step.op.type not in TRIVIAL:
            node = f"{number} {step.op.name}"
            add(node, step.op.type, step.outputs[0], "op")
            kind = guilty.get(step.op.name)
            marked += [node] if kind else []
            for value in dict.fromkeys(inputs):
                for use in value.uses:
                    if use.step is not step:
                        continue
                    edge = drawn[value], node
                    graph.add_edge(*edge, cut=use.part is None)
                    if kind and did[kind](use.part):
                        marked.append(edge)
        drawn |= dict.fromkeys(step.outputs, node)
    return (graph, marked) if len(graph) <= 12 else _shortened(graph, marked)


def _shortened(graph: nx.MultiDiGraph, marked: list) -> tuple:
    """Keep one path, through the first of the marked: ends, and around it."""
    first, *_, last = order = [*graph]
    middle = marked[0] if marked else last
    last = max(nx.descendants(graph, middle) | {middle}, key=order.index)
    path = nx.shortest_path(graph, first, middle)
    k = len(path) - 1
    path += nx.shortest_path(graph, middle, last)[1:]
    result, before = nx.MultiDiGraph(), None
    for i, node in enumerate(path):
        kept = i in (0, 1, len(path) - 1) or abs(i - k) < 4
        if not kept:
            node = f"... {i}"
            graph.add_node(node, label="...")
        if kept or before in path:
            result.add_node(node, **graph.nodes[node])
            if before is not None:
                edge = graph.get_edge_data(before, node, 0) or {}
                result.add_edge(before, node, **edge)
            before = node
    inside = [*result, *result.edges()]
    return result, [item for item in marked if item in inside]
