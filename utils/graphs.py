"""Draw a small computation graph, its values, tangents and adjoints.

A graph is described plainly, by a ``networkx.MultiDiGraph``: one edge for each
argument, so that ``a + a`` has two. Nodes stand in it in the order in which
they are computed. Their attributes, all optional:

- ``label``: what is written in the box (else the node itself);
- ``value``, ``tangent``, ``adjoint``: a number, a small array or a text. None
  is written out, for TensorFlow says None where no path leads; what is not
  known yet is left out;
- ``kind``: ``"input"``, ``"op"``, or ``"gradient"`` for an op of a backward
  pass.

An edge with ``cut=True`` lets no gradient back. `from_tensorflow` describes a
graph of TensorFlow so, and `from_trace` a run of the book's own engines; `draw`
draws what is described so, whoever made it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnnotationBbox, TextArea, VPacker
from matplotlib.patches import ConnectionStyle, FancyArrowPatch
from matplotlib.path import Path

from utils.arguments import refused
from utils.figures import COLORS
from utils.wengert import Node

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["TRIVIAL", "draw", "from_tensorflow", "from_trace"]

_SHAPES = {"Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs"}
TRIVIAL = frozenset(_SHAPES | {"Const", "Identity", "NoOp", "ReadVariableOp"})
"""Types of the ops that `from_tensorflow` leaves out unless told otherwise."""

_SOURCES = {"Placeholder", "PlaceholderWithDefault", "VarHandleOp"}
_ROWS = {
    "value": ("$v$", "forward"),
    "tangent": (r"$\dot{v}$", "plain"),
    "adjoint": (r"$\bar{v}$", "backward"),
}
_PAGE, _MARGIN = 6.4 * 72, 8.0  # points


def from_tensorflow(
    outputs: tf.Tensor | Sequence[tf.Tensor],
    inputs: tf.Tensor | Sequence[tf.Tensor | tf.Variable] = (),
    *,
    gradients: Sequence[tf.Tensor | None] = (),
    at: Sequence[Any] | None = None,
    hide: Collection[str] = TRIVIAL,
) -> nx.MultiDiGraph:
    """Describe the ops between inputs and outputs in a graph of TensorFlow.

    Parameters
    ----------
    outputs
        Tensors of a ``tf.Graph``, or of a traced ``tf.function``
        (``concrete.outputs``).
    inputs
        Tensors or variables at which the walk back from the outputs ends. Ops
        that do not depend on them (noise, say) are shown too.
    gradients
        What ``tf.gradients`` or a tape gave in the same graph, one for each
        input; None is passed over. Ops that lead to them and not to the
        outputs get the kind ``"gradient"``. More tensors may follow.
    at
        One value for each input. Then each node gets its ``value``, and, where
        no gradients are given, its ``adjoint``: the derivative of the sum of
        the outputs. All are computed in one run, in a copy of the graph:
        nothing is added to yours.
    hide
        Types of ops to leave out: such an op stands for its first input where
        that has the same dtype (Identity, the read of a variable), else for
        nothing (shapes). A hidden constant that is one number goes into the
        labels, as in ``Pow(·, 3)``; floating-point arrays are shown.
        Placeholders of unknown shape cost each gradient a Sum and a Reshape:
        ``TRIVIAL | {"Sum", "Reshape"}`` hides them.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes are names of ops, in the order in which they were made; inputs
        are labelled with their names, ops with their types. Of several outputs
        of an op the first is meant. The edge into a StopGradient is cut.

    Raises
    ------
    TypeError
        If an output, input or gradient is no tensor of a graph (but an eager
        tensor, say).
    ValueError
        If one is in another graph; if an input does not reach the outputs; if
        ``at`` lacks a value for an input, or for a placeholder or variable
        that is none.

    Examples
    --------
    >>> import tensorflow as tf
    >>> f = tf.function(lambda x, y: tf.sin(x) - y**3, autograph=False)
    >>> number = tf.TensorSpec([])
    >>> traced = f.get_concrete_function(number, number)
    >>> graph = from_tensorflow(traced.outputs, traced.inputs, at=(3.0, 5.0))
    >>> for _, node in graph.nodes(data=True):
    ...     value, adjoint = node["value"], node["adjoint"]
    ...     print(f"{node['label']:9} {value:9.4f} {adjoint:9.4f}")
    x            3.0000   -0.9900
    y            5.0000  -75.0000
    Sin          0.1411    1.0000
    Pow(·, 3)  125.0000   -1.0000
    Sub       -124.8589    1.0000
    """
    import tensorflow as tf  # here: other graphs are drawn without it

    outputs, inputs = tf.nest.flatten(outputs), tf.nest.flatten(inputs)
    gradients = tf.nest.flatten(gradients)
    graph = getattr(outputs[0], "graph", None) if outputs else None
    captured = {id(a): b for a, b in getattr(graph, "captures", ())}
    inputs = [getattr(x, "handle", x) for x in inputs]
    inputs = [captured.get(id(x), x) for x in inputs]
    _require_symbolic("outputs", outputs or [None], graph)
    _require_symbolic("inputs", inputs, graph)
    made = [g for g in gradients if g is not None]
    _require_symbolic("gradients", made, graph)
    ends = [x.op for x in inputs]

    def drawn(tensor: tf.Tensor, root: bool = False) -> tf.Operation | None:
        while (op := tensor.op).type in hide and op not in ends:
            array = op.type == "Const" and tensor.shape.num_elements() > 1
            if array and tensor.dtype.is_floating:
                return op
            like = (tensor.dtype.base_dtype, tf.resource)
            if not op.inputs or op.inputs[0].dtype not in like:
                return op if root else None
            tensor = op.inputs[0]
        return op

    def walk(tensors: list[tf.Tensor]) -> set[tf.Operation]:
        found, stack = set(), [drawn(t, root=True) for t in tensors]
        while stack:
            if (op := stack.pop()) not in found:
                found.add(op)
                before = [] if op in ends else map(drawn, op.inputs)
                stack += filter(None, before)
        return found

    forward = walk(outputs)
    for i, op in enumerate(ends):
        if op not in forward:
            raise ValueError(
                f"inputs[{i}] ({op.name}) does not reach the outputs; leave it "
                "out, or give the result a node for it with add_node"
            )
    shown = forward | walk(made)
    variables = getattr(graph, "variables", ())
    names = {
        captured[id(v.handle)].op: v.name
        for v in variables
        if id(v.handle) in captured
    }
    result = nx.MultiDiGraph()
    for op in filter(shown.__contains__, graph.get_operations()):
        source = op in ends or op.type in _SOURCES
        slots = []
        for tensor in () if source else op.inputs:
            if argument := drawn(tensor):
                cut = op.type == "StopGradient"
                result.add_edge(argument.name, op.name, cut=cut)
                slots.append("·")
            elif getattr(c := tf.get_static_value(tensor), "size", 0) == 1:
                slots.append(_text(c.item()))
        label = op.type + (f"({', '.join(slots)})" if {*slots} - {"·"} else "")
        if source or op.type == "Const":
            label = names.get(op, op.name).split("/")[-1].split(":")[0]
        kind = "gradient" if op not in forward else "input" if source else "op"
        result.add_node(op.name, label=label, kind=kind)
    for op, gradient in zip(ends, gradients, strict=False):
        if gradient is not None:
            node = result.nodes[drawn(gradient, root=True).name]
            node["label"] = (
                f"∂/∂{result.nodes[op.name]['label']}: {node['label']}"
            )
    if at is not None:
        _evaluate(result, outputs, inputs, at, adjoints=not made)
    return result


def _require_symbolic(role: str, tensors: list, graph: tf.Graph | None) -> None:
    import tensorflow as tf

    for i, tensor in enumerate(tensors):
        if not tf.is_symbolic_tensor(tensor):
            raise TypeError(
                f"{role}[{i}] is {tensor!r:.60}, which is no tensor of a graph; "
                "from_tensorflow needs those built in a tf.Graph, or inputs and "
                "outputs of tf.function(f).get_concrete_function(...)"
            )
        if tensor.graph is not graph:
            raise ValueError(
                f"{role}[{i}] ({tensor.name}) is in another graph than "
                "outputs[0]; from_tensorflow describes one graph"
            )


def _evaluate(
    result: nx.MultiDiGraph, outputs: list, inputs: list, at, adjoints: bool
) -> None:
    """Put the values, and the adjoints if wanted, on the nodes."""
    import tensorflow as tf

    if not isinstance(at, list | tuple) or len(at) != len(inputs):
        raise ValueError(
            f"at is {at!r:.60}; it needs a list of {len(inputs)} values, one "
            "for each input"
        )
    graph, ends = outputs[0].graph, [x.op.name for x in inputs]
    for name in result:
        kind = graph.get_operation_by_name(name).type
        if kind in _SOURCES and name not in ends:
            raise ValueError(
                f"at has no value for {name} ({kind}); add it to the inputs"
            )
    with tf.Graph().as_default() as copy, tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(graph.as_graph_def(), name="")

        def reads(tensor: tf.Tensor) -> list[tf.Tensor]:
            ops = tensor.consumers() if tensor.dtype == tf.resource else ()
            found = [op for op in ops if op.type == "ReadVariableOp"]
            return [op.outputs[0] for op in found] or [tensor]

        feed = {}
        for x, value in zip(inputs, at, strict=True):
            tensor = copy.get_tensor_by_name(x.name)
            feed |= dict.fromkeys(reads(tensor), value)
        nodes = [copy.get_operation_by_name(n).outputs[0] for n in result]
        ys = [copy.get_tensor_by_name(y.name) for y in outputs]
        wanted = {}
        for name, tensor in zip(result, nodes, strict=True):
            wanted[name, "value"] = reads(tensor)[0]
            # One call for each: among others, an integer gets a gradient.
            slope = tf.gradients(ys, tensor)[0] if adjoints else None
            if slope is not None:
                wanted[name, "adjoint"] = tf.convert_to_tensor(slope)
        if adjoints:
            nx.set_node_attributes(result, None, "adjoint")
        for (name, key), number in session.run(wanted, feed).items():
            result.nodes[name][key] = number


def from_trace(nodes: Sequence) -> nx.MultiDiGraph:
    """Describe the Wengert list of one of the book's own engines.

    Parameters
    ----------
    nodes
        What `utils.forward_mode.trace` or `utils.reverse_mode.trace` returned.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes are the names of the lines; each has its ``value``, and its
        ``tangent`` or ``adjoint``.

    Raises
    ------
    TypeError
        If ``nodes`` is no such list, or empty.

    Examples
    --------
    >>> from utils.reverse_mode import trace
    >>> graph = from_trace(trace(lambda x, y: x * y + x, (2.0, 3.0)))
    >>> for _, node in graph.nodes(data=True):
    ...     print(f"{node['label']:11} {node['value']:.0f} {node['adjoint']:.0f}")
    x           2 4
    y           3 2
    v1 = x * y  6 1
    v2 = v1 + x 8 1
    """
    given = isinstance(nodes, Sequence) and nodes
    if not given or not all(isinstance(node, Node) for node in nodes):
        raise refused(
            nodes, "nodes", "what trace of an engine of utils returned"
        )
    graph = nx.MultiDiGraph()
    for node in nodes:
        if node.function is None:
            known = {"label": node.name, "kind": "input"}
        else:
            known = {"label": f"{node.name} = {node.expression}", "kind": "op"}
        for row in _ROWS:
            if hasattr(node, row):
                known[row] = getattr(node, row)
        graph.add_node(node.name, **known)
        parents = (parent for parent in node.parents if parent is not None)
        graph.add_edges_from((parent.name, node.name) for parent in parents)
    return graph


def draw(
    graph: nx.MultiDiGraph,
    ax: Axes | None = None,
    *,
    step: int | None = None,
    show: Collection[str] = ("value", "tangent", "adjoint"),
    highlight: Collection[Any] = (),
    direction: str | None = None,
    caption: str | None = None,
) -> Axes:
    """Draw a graph: v is a value, dotted a tangent, under a bar an adjoint.

    Parameters
    ----------
    graph
        A graph as the head of this module describes it.
    ax
        Axes to fill; boxes keep the size of their letters. Without axes a
        figure is made that fits: 6.4 inches wide, or more where needed.
    step
        Show what is known after so many steps: one for the value and tangent
        of each node in the order of computation, then one for each adjoint in
        the reverse order. The node of the last step is highlighted; from step
        to step no box moves. Without a step all is shown.
    show
        Which of value, tangent and adjoint are written.
    highlight
        Nodes, and edges as pairs of nodes, to draw heavier.
    direction
        ``"right"`` or ``"down"``; without one, to the right if that fits the
        width or is the narrower. Gradient ops stand apart, below or on the
        right, and run the other way.
    caption
        A line above the drawing.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Raises
    ------
    TypeError
        If ``graph`` is no directed graph of networkx, ``ax`` no axes, or ``show``
        or ``highlight`` no list.
    ValueError
        If it is empty or has a cycle, or if ``step``, ``show``, ``highlight``
        or ``direction`` asks for what is not there.

    Notes
    -----
    A layered drawing after Sugiyama, Tagawa and Toda (1981),
    doi:10.1109/TSMC.1981.4308636. The layer of a node is its longest distance
    from the inputs (of a gradient op: to the results); a long edge bends in
    each layer that it crosses; barycentres of neighbours order the layers.

    Examples
    --------
    >>> graph = nx.MultiDiGraph([("a", "a + a"), ("a", "a + a")])
    >>> graph.nodes["a"].update(value=1.0, adjoint=2.0)
    >>> ax = draw(graph, caption="Two edges, two contributions")
    >>> ax.get_title(loc="left")
    'Two edges, two contributions'
    """
    if not isinstance(ax, Axes | None):
        raise refused(ax, "ax", "axes of matplotlib")
    order, steps = _check(graph, step, show, highlight, direction)
    known = steps if step is None else steps[:step]
    marked = {*highlight, *(node for node, _ in known[-1:] if step)}
    back = {n for n in order if graph.nodes[n].get("kind") == "gradient"}
    if own := ax is None:
        ax = plt.figure(layout="none").add_axes((0, 0, 1, 1))
    ax.axis("off")
    ax.set_title(caption or "", loc="left")

    boxes = {}
    for node in order:
        data, color = graph.nodes[node], "backward" if node in back else None
        words = {"size": 12, "multialignment": "center"}
        lines = [TextArea(data.get("label", node), textprops=words)]
        for key, (symbol, meaning) in _ROWS.items():
            if key in data and key in show:
                words = {"size": 12, "color": COLORS[color or meaning]}
                words["alpha"] = float((node, key == "adjoint") in known)
                text = f"{symbol} = {_text(data[key])}"
                lines.append(TextArea(text, textprops=words))
        round_by = 0.7 if data.get("kind") == "input" else 0.15
        frame = {
            "boxstyle": f"round,rounding_size={round_by}",
            "edgecolor": COLORS[color or "forward"],
            "facecolor": "#e4e4e4" if node in marked else "white",
            "linestyle": "--" if color else "-",
            "linewidth": 3.2 if node in marked else 1.4,
        }
        boxes[node] = AnnotationBbox(
            VPacker(children=lines, align="center", pad=0, sep=3),
            (0, 0),
            annotation_clip=False,
            bboxprops=frame,
            fontsize=12,
        )
        ax.add_artist(boxes[node])

    inch = ax.figure.dpi
    room = _PAGE if own else ax.get_window_extent().width * 72 / inch
    sizes = {
        n: b.get_window_extent().size * 72 / inch for n, b in boxes.items()
    }
    turned = {node: size[::-1] for node, size in sizes.items()}
    right = _layout(graph, turned, back, room)
    down = _layout(graph, sizes, back, 0)
    if direction is None:
        fits = right[2][1] < 1 + max(room, down[2][0])
        direction = "right" if fits else "down"
    places, routes, extent = right if direction == "right" else down
    turn = [[0, -1], [1, 0]] if direction == "right" else [[1, 0], [0, -1]]

    for node, box in boxes.items():
        box.xy = box.xybox = np.dot(places[node], turn)
    for tail, head, cut, points, codes in routes:
        path = Path(np.dot(points, turn), codes)
        kept = head in back and tail not in back  # a value for the way back
        arrow = FancyArrowPatch(
            *path.vertices[[0, -1]],
            connectionstyle=_Along(path, ax),
            patchA=boxes[tail].patch,
            patchB=boxes[head].patch,
            arrowstyle="-|>",
            mutation_scale=12,
            color=COLORS["backward" if {tail, head} <= back else "plain"],
            linestyle="--" if cut else ":" if kept else "-",
            linewidth=3 if (tail, head) in marked else 1.4,
            zorder=4,  # after the boxes, which find their places when drawn
        )
        ax.add_artist(arrow)
        if cut:
            middle = path.vertices[2:4].mean(axis=0)
            cross = {"ms": 11, "mew": 3, "color": COLORS["backward"]}
            ax.plot(*middle, "x", zorder=5, **cross)

    low, high = np.sort(np.dot([(0, 0), extent], turn), axis=0)
    if own:
        spare = max(0, _PAGE - high[0] + low[0]) / 2
        low[0], high[0] = low[0] - spare, high[0] + spare
        width, height = high - low
        top = 20 * len(str(caption or "").splitlines())
        ax.figure.set_size_inches(width / 72, (height + top) / 72)
        ax.set_position((0, 0, 1, height / (height + top)))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return ax


class _Along(ConnectionStyle.Arc3):
    """Lead an arrow along a path in data units; its base clips it at boxes."""

    def __init__(self, path: Path, ax: Axes) -> None:
        super().__init__()
        self.path, self.ax = path, ax

    def connect(self, posA: object, posB: object) -> Path:
        return self.path.transformed(self.ax.transData)


def _check(graph, step, show, highlight, direction) -> tuple[list, list]:
    """Return the nodes and the steps in order, or refuse what is not there."""
    if not isinstance(graph, nx.DiGraph):
        raise TypeError(
            f"graph is {graph!r:.40}; draw needs a networkx.MultiDiGraph"
        )
    if not graph or not nx.is_directed_acyclic_graph(graph):
        what = "a cycle" if graph else "no nodes"
        raise ValueError(f"graph has {what}; draw needs nodes and no cycle")
    order = list(nx.lexicographical_topological_sort(graph, [*graph].index))
    data = graph.nodes
    steps = [(n, False) for n in order if {"value", "tangent"} & {*data[n]}]
    steps += [(n, True) for n in reversed(order) if "adjoint" in data[n]]
    for name, given, accepted in (
        ("step", {step} - {None}, range(len(steps) + 1)),
        ("show", show, [*_ROWS]),
        ("highlight", highlight, [*graph, *graph.edges()]),
        ("direction", {direction} - {None}, ["right", "down"]),
    ):
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise refused(given, name, f"a list, out of {accepted!s:.200}")
        for item in given:
            if item not in accepted:
                raise ValueError(
                    f"{name} has {item!r}; accepted here: {accepted!s:.200}"
                )
    return order, steps


def _layout(graph, sizes, back, room) -> tuple[dict, list, tuple]:
    """Find places, routes and the extent, as (across, along) in points."""
    side = {node: 2 * (node in back) for node in sizes}  # 1: bends between
    level: dict[Hashable, int] = {}
    for node in sizes:
        before = [level[p] for p in graph.pred[node] if p in level]
        if node not in back:
            level[node] = 1 + max(before, default=-1)
    for node in reversed(sizes):
        after = [level[s] for s in graph.succ[node] if side[s] == side[node]]
        if node in back:
            level[node] = 1 + max(after, default=-1)
        elif after and not graph.pred[node]:
            level[node] = min(after) - 1

    chains, near, rows = [], defaultdict(list), defaultdict(list)
    for tail, head, data in graph.edges(data=True):
        up = 1 if level[head] > level[tail] else -1
        passed = range(level[tail] + up, level[head], up)
        bends = {("bend", len(chains), k): k for k in passed}
        level |= bends
        side |= dict.fromkeys(bends, (side[tail] + side[head]) // 2)
        chains.append(([tail, *bends, head], bool(data.get("cut"))))
        for a, b in pairwise(chains[-1][0]):
            if side[a] == side[b]:
                near[a].append(b)
                near[b].append(a)
    for item in side:
        rows[side[item], level[item]].append(item)

    x = dict.fromkeys(side, 0.0)
    half = {i: 8 + (sizes[i][0] / 2 if i in sizes else 0) for i in side}
    for sweep in range(24):  # to and fro, then between the neighbours
        for key in sorted(rows, reverse=sweep % 2 == 1):
            row, last, edge = rows[key], key[1] - (-1) ** sweep, -np.inf
            wish = {}
            for i in row:
                seen = [x[j] for j in near[i] if sweep > 11 or level[j] == last]
                wish[i] = round(float(np.mean(seen or x[i])), 3)
            row.sort(key=wish.get)
            for i in row:
                x[i] = max(wish[i], edge + half[i])
                edge = x[i] + half[i]
            shift = np.mean([wish[i] - x[i] for i in row])
            x |= {i: x[i] + shift for i in row}
    edge = 0.0
    for part in range(3):
        items = [i for i in side if side[i] == part]
        shift = edge - min((x[i] - half[i] for i in items), default=edge)
        x |= {i: x[i] + shift for i in items}
        edge = max((x[i] + half[i] for i in items), default=edge)

    thick = np.zeros(1 + max(level.values()))
    for node, size in sizes.items():
        thick[level[node]] = max(thick[level[node]], size[1])
    gap = (room - thick.sum() - 2 * _MARGIN) / max(1, len(thick) - 1)
    gap = np.clip(gap, 30, 70)
    middle = _MARGIN + thick.cumsum() - thick / 2 + gap * np.arange(len(thick))

    def toward(k: int, m: int) -> int:
        """The side on which an arrow leaves layer k for layer m."""
        return 1 if m > k or m == k < len(thick) - 1 else -1

    ports, offset = defaultdict(list), {}
    for i, (chain, _) in enumerate(chains):
        for node, onward, e in (*chain[:2], 0), (*chain[:-3:-1], -1):
            face = node, toward(level[node], level[onward])
            ports[face].append((x[onward], i, e))
    for (node, _), arrows in ports.items():
        spread = min(14, sizes[node][0] / len(arrows))
        for j, (_, i, e) in enumerate(sorted(arrows)):
            offset[i, e] = (j - (len(arrows) - 1) / 2) * spread

    routes = []
    for i, (chain, cut) in enumerate(chains):
        at = [x[item] for item in chain]
        at[0], at[-1] = at[0] + offset[i, 0], at[-1] + offset[i, -1]
        layers = [level[item] for item in chain]
        points, codes = [(at[0], middle[layers[0]])], [Path.MOVETO]
        for (a, k), (b, m) in pairwise(zip(at, layers, strict=True)):
            up = toward(k, m)
            leave = middle[k] + up * thick[k] / 2
            turn = leave + up * gap / 2
            arrive = leave if m == k else leave + up * gap
            points += [(a, leave), (a, turn), (b, turn), (b, arrive)]
            codes += [Path.LINETO] + 3 * [Path.CURVE4]
        points.append((at[-1], middle[layers[-1]]))
        codes.append(Path.LINETO)
        routes.append((chain[0], chain[-1], cut, points, codes))
    places = {node: (x[node], middle[level[node]]) for node in sizes}
    return places, routes, (edge, middle[-1] + thick[-1] / 2 + _MARGIN)


def _text(value: object) -> str:
    """Write a number in four digits, a small array in full, else the shape."""
    if value is None or isinstance(value, str):
        return str(value)
    array = np.asarray(value)
    if array.ndim > 1 or array.size > 3:
        return f"array {array.shape}"
    if array.ndim:
        return f"[{', '.join(map(_text, array))}]"
    text = f"{array:.4g}" if array.dtype.kind in "fiu" else str(array)
    return text.replace("-", "\N{MINUS SIGN}")
