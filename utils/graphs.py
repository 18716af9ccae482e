"""Draw a small computation graph, with values, tangents and adjoints on its nodes.

A graph is described plainly, by a ``networkx.MultiDiGraph``: one edge for each argument, so
that ``a + a`` has two. Nodes stand in it in the order in which they are computed; their
attributes, all optional, are

- ``label``: what is written in the box (else the node itself);
- ``value``, ``tangent``, ``adjoint``: a number, a small array or a text; None is written out
  (TensorFlow says None where no path leads), a missing attribute is not known yet;
- ``kind``: ``"input"``, ``"op"``, or ``"gradient"`` for an op of a backward pass.

An edge with the attribute ``cut=True`` lets no gradient back. `from_tensorflow` describes a
graph of TensorFlow so; `draw` draws what is described so, whoever made it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnnotationBbox, TextArea, VPacker
from matplotlib.patches import ConnectionStyle, FancyArrowPatch
from matplotlib.path import Path

from utils.figures import COLORS

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["TRIVIAL", "draw", "from_tensorflow"]

TRIVIAL = frozenset(
    "Const Identity NoOp ReadVariableOp Shape ShapeN Size Rank BroadcastGradientArgs".split()
)
"""Types of the ops that `from_tensorflow` leaves out unless told otherwise."""

_SOURCES = {"Placeholder", "PlaceholderWithDefault", "VarHandleOp", "VariableV2"}
_ROWS = {"value": ("$v$", "forward"), "tangent": (r"$\dot{v}$", "plain")}
_ROWS["adjoint"] = (r"$\bar{v}$", "backward")
_PAGE, _MARGIN = 6.4 * 72, 6.0  # points


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
        Tensors of a ``tf.Graph``, or of a traced ``tf.function`` (``concrete.outputs``).
    inputs
        Tensors or variables at which the walk back from the outputs ends. Ops that do not
        depend on them (noise, say) are shown too.
    gradients
        What ``tf.gradients`` or a tape gave in the same graph; None is passed over. Ops that lead
        to them and not to the outputs get the kind ``"gradient"``.
    at
        One value for each input. Then each node gets its ``value``, and, where no gradients are
        given, its ``adjoint``: the derivative of the sum of the outputs. All are computed in one
        run, in a copy of the graph: nothing is added to yours.
    hide
        Types of ops to leave out: such an op stands for its first input where that has the same
        dtype (Identity, the read of a variable), else for nothing (shapes). A hidden constant
        that is one number goes into the labels, as in ``Pow(·, 3)``; floating-point arrays are
        shown. Placeholders of unknown shape cost each gradient a Sum and a Reshape:
        ``TRIVIAL | {"Sum", "Reshape"}`` hides them.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes are names of ops, in the order in which they were made; inputs are labelled with
        their names, ops with their types. Of several outputs of an op the first is meant. The
        edge into a StopGradient is cut.

    Raises
    ------
    TypeError
        If an output, input or gradient is no tensor of a graph (an eager tensor, say).
    ValueError
        If one is in another graph; if an input does not reach the outputs; if ``at`` lacks a
        value for an input, or for a placeholder or variable that is none.

    Examples
    --------
    >>> import tensorflow as tf
    >>> f = tf.function(lambda x, y: tf.sin(x) - y**3, autograph=False)
    >>> concrete = f.get_concrete_function(tf.TensorSpec([]), tf.TensorSpec([]))
    >>> graph = from_tensorflow(concrete.outputs, concrete.inputs, at=(3.0, 5.0))
    >>> for _, node in graph.nodes(data=True):
    ...     print(f"{node['label']:9} {node['value']:9.4f} {node['adjoint']:9.4f}")
    x            3.0000   -0.9900
    y            5.0000  -75.0000
    Sin          0.1411    1.0000
    Pow(·, 3)  125.0000   -1.0000
    Sub       -124.8589    1.0000
    """
    import tensorflow as tf  # here, so that who draws other graphs need not wait for it

    outputs, inputs = tf.nest.flatten(outputs), tf.nest.flatten(inputs)
    gradients = [g for g in tf.nest.flatten(gradients) if g is not None]
    graph = outputs[0].graph if tf.is_symbolic_tensor(outputs[0]) else None
    captured = {
        id(outside): inside for outside, inside in getattr(graph, "captures", ())
    }
    inputs = [getattr(x, "handle", x) for x in inputs]
    inputs = [captured.get(id(x), x) for x in inputs]
    for role, tensors in (
        ("outputs", outputs),
        ("inputs", inputs),
        ("gradients", gradients),
    ):
        for i, tensor in enumerate(tensors):
            if not tf.is_symbolic_tensor(tensor):
                raise TypeError(
                    f"{role}[{i}] is {tensor!r:.60}, which no graph holds; from_tensorflow needs "
                    "tensors of a tf.Graph, or the inputs and outputs of "
                    "concrete = tf.function(f).get_concrete_function(...)."
                )
            if tensor.graph is not graph:
                raise ValueError(
                    f"{role}[{i}] ({tensor.name}) is in another graph than outputs[0]."
                )
    ends = [x.op for x in inputs]

    def drawn(tensor: tf.Tensor) -> tf.Operation | None:
        while (op := tensor.op) not in ends and op.type in hide:
            array = (
                op.type == "Const"
                and tensor.dtype.is_floating
                and np.prod(tensor.shape) != 1
            )
            onward = [
                t
                for t in op.inputs[:1]
                if t.dtype in (tensor.dtype.base_dtype, tf.resource)
            ]
            if array or not onward:
                return op if array else None
            tensor = onward[0]
        return op

    def walk(tensors: Sequence[tf.Tensor]) -> set[tf.Operation]:
        found, stack = set(), [drawn(t) for t in tensors]
        while stack:
            op = stack.pop()
            if op is not None and op not in found:
                found.add(op)
                stack += [] if op in ends else [drawn(t) for t in op.inputs]
        return found

    forward = walk(outputs)
    for i, op in enumerate(ends):
        if op not in forward:
            raise ValueError(
                f"inputs[{i}] ({op.name}) does not reach the outputs; leave it out (to draw it "
                "alone, add it to the result with add_node)."
            )
    shown = forward | walk(gradients)
    names = {captured[id(v.handle)].op: v.name for v in getattr(graph, "variables", ())}
    result = nx.MultiDiGraph()
    for op in (op for op in graph.get_operations() if op in shown):
        given = op in ends or op.type in _SOURCES
        arguments = (
            [] if given else [(drawn(t), tf.get_static_value(t)) for t in op.inputs]
        )
        slots = [
            "·" if a else _text(c.item()) for a, c in arguments if a or np.size(c) == 1
        ]
        label = op.type + (f"({', '.join(slots)})" if set(slots) - {"·"} else "")
        if given or op.type == "Const":
            label = names.get(op, op.name).split("/")[-1].split(":")[0]
        kind = "gradient" if op not in forward else "input" if given else "op"
        result.add_node(op.name, label=label, kind=kind)
        for argument in (a for a, _ in arguments if a):
            result.add_edge(argument.name, op.name, cut=op.type == "StopGradient")
    if at is not None:
        _evaluate(result, outputs, inputs, at, adjoints=not gradients)
    return result


def _evaluate(
    result: nx.MultiDiGraph, outputs, inputs, at: Sequence[Any], adjoints: bool
) -> None:
    """Put values, and adjoints if wanted, on the nodes."""
    import tensorflow as tf

    if np.ndim(at) == 0 or len(at) != len(inputs):
        raise ValueError(
            f"at is {at!r:.40}; it needs one value for each of {len(inputs)} inputs."
        )
    graph, ends = outputs[0].graph, {x.op.name for x in inputs}
    for name in set(result) - ends:
        if (kind := graph.get_operation_by_name(name).type) in _SOURCES:
            raise ValueError(f"at gives no value to {name} ({kind}); add it to inputs.")
    with tf.Graph().as_default() as copy, tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(graph.as_graph_def(), name="")

        def reads(tensor: tf.Tensor) -> list[tf.Tensor]:
            if tensor.dtype != tf.resource:
                return [tensor]
            return [
                op.outputs[0]
                for op in tensor.consumers()
                if op.type == "ReadVariableOp"
            ]

        here = [copy.get_tensor_by_name(x.name) for x in inputs]
        feed = {t: value for x, value in zip(here, at, strict=True) for t in reads(x)}
        nodes = {name: copy.get_operation_by_name(name).outputs[0] for name in result}
        fetch = {"value": {name: reads(t)[0] for name, t in nodes.items()}}
        if adjoints:
            ys = [copy.get_tensor_by_name(y.name) for y in outputs]
            found = dict(
                zip(nodes, tf.gradients(ys, list(nodes.values())), strict=True)
            )
            found = {
                name: tf.convert_to_tensor(g)
                for name, g in found.items()
                if g is not None
            }
            fetch["adjoint"] = found
            nx.set_node_attributes(result, None, "adjoint")
        for key, numbers in session.run(fetch, feed).items():
            nx.set_node_attributes(result, numbers, key)


def draw(
    graph: nx.MultiDiGraph,
    ax: Axes | None = None,
    *,
    step: int | None = None,
    show: Collection[str] = tuple(_ROWS),
    highlight: Collection[Any] = (),
    direction: str | None = None,
    caption: str | None = None,
) -> Axes:
    """Draw a computation graph, layer by layer: v is a value, with a dot a tangent, with a bar an adjoint.

    Parameters
    ----------
    graph
        A graph as the head of this module describes it.
    ax
        Axes to fill; boxes keep the size of their letters. Without axes a figure is made that
        fits: 6.4 inches wide, or more where the graph needs it.
    step
        Show what is known after so many steps: one for each node's value and tangent in the order
        of computation, then one for each adjoint in the reverse order. The node of the last
        step is highlighted; from step to step no box moves. Without a step all is shown.
    show
        Which of ``"value"``, ``"tangent"``, ``"adjoint"`` are written.
    highlight
        Nodes, and edges as pairs of nodes, to draw heavier.
    direction
        ``"right"`` or ``"down"``; without one, to the right if that fits the width. Gradient ops
        stand apart, below or on the right, and run the other way.
    caption
        A line above the drawing.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Raises
    ------
    TypeError
        If ``graph`` is no directed graph of networkx.
    ValueError
        If it is empty or has a cycle, or if ``step``, ``show``, ``highlight`` or ``direction``
        asks for what is not there.

    Notes
    -----
    A layered drawing after Sugiyama, Tagawa and Toda (1981), doi:10.1109/TSMC.1981.4308636: the
    layer of a node is its longest distance from the inputs (of a gradient op: to the results), a
    long edge bends in each layer that it crosses, and the barycentre of its neighbours moves a node.

    Examples
    --------
    >>> graph = nx.MultiDiGraph([("a", "b = a + a"), ("a", "b = a + a")])
    >>> graph.nodes["a"].update(value=1.0, adjoint=2.0)
    >>> draw(graph, caption="Two edges, two contributions").get_title(loc="left")
    'Two edges, two contributions'
    """
    order, moments = _check(graph, step, show, highlight, direction)
    known = moments if step is None else moments[:step]
    marked = {*highlight, *(node for node, _ in known[-1:] if step)}
    back = {node for node in order if graph.nodes[node].get("kind") == "gradient"}
    if own := ax is None:
        ax = plt.figure().add_axes((0, 0, 1, 1))
    ax.axis("off")
    ax.set_title(caption or "", loc="left")

    boxes = {}
    for node in order:
        data = graph.nodes[node]
        rows = [TextArea(data.get("label", node), textprops={"size": 12})]
        for key in (key for key in _ROWS if key in data and key in show):
            symbol, color = _ROWS[key]
            words = {"color": COLORS["backward" if node in back else color], "size": 12}
            words["alpha"] = float((node, key == "adjoint") in known)
            rows.append(TextArea(f"{symbol} = {_text(data[key])}", textprops=words))
        stack = VPacker(children=rows, align="center", pad=0, sep=3)
        corner = 0.9 if data.get("kind") == "input" else 0.15
        frame = {
            "boxstyle": f"round,pad=0.35,rounding_size={corner}",
            "edgecolor": COLORS["backward" if node in back else "forward"],
            "linestyle": "--" if node in back else "-",
            "linewidth": 3.2 if node in marked else 1.4,
            "facecolor": "#e4e4e4" if node in marked else "white",
        }
        box = AnnotationBbox(
            stack, (0, 0), annotation_clip=False, bboxprops=frame, fontsize=12
        )
        boxes[node] = ax.add_artist(box)

    point = ax.figure.dpi / 72
    sizes = {node: box.get_window_extent().size / point for node, box in boxes.items()}
    room = _PAGE if own else ax.get_window_extent().width / point
    turn = np.array([[0, -1], [1, 0]])  # from (across, along) to (x, y)
    flat = {node: size[::-1] for node, size in sizes.items()}
    places, routes, long = _layout(graph, order, back, flat, room)
    if direction == "down" or (direction is None and long > room):
        turn = np.array([[1, 0], [0, -1]])
        places, routes, _ = _layout(graph, order, back, sizes, 0)

    for node, box in boxes.items():
        box.xy = box.xybox = places[node] @ turn
    for (tail, head, cut), path in routes:
        path = Path(path.vertices @ turn, path.codes)
        style = {
            "color": COLORS["backward" if {tail, head} <= back else "plain"],
            "linestyle": "--"
            if cut
            else ":"
            if head in back and tail not in back
            else "-",
            "linewidth": 3 if (tail, head) in marked else 1.4,
        }
        arrow = FancyArrowPatch(
            *path.vertices[[0, -1]],
            connectionstyle=_Along(path, ax),
            arrowstyle="-|>",
            mutation_scale=12,
            patchA=boxes[tail].patch,
            patchB=boxes[head].patch,
            zorder=4,
            **style,
        )
        ax.add_patch(arrow)
        if cut:
            words = {
                "color": COLORS["backward"],
                "size": 20,
                "weight": "bold",
                "zorder": 5,
            }
            ax.text(*path.vertices[2:4].mean(0), "×", ha="center", va="center", **words)

    half = np.array([sizes[node] / 2 for node in order])
    spots = np.array([places[node] @ turn for node in order])
    bends = np.concatenate([path.vertices @ turn for _, path in routes] or [spots])
    low = np.minimum((spots - half).min(0), bends.min(0)) - _MARGIN
    high = np.maximum((spots + half).max(0), bends.max(0)) + _MARGIN
    if own:
        spare = max(0, _PAGE - (high - low)[0]) / 2
        low[0], high[0] = low[0] - spare, high[0] + spare
        top = 20 * (1 + caption.count("\n")) if caption else 0
        width, height = high - low
        ax.figure.set_size_inches(width / 72, (height + top) / 72)
        ax.set_position((0, 0, 1, height / (height + top)))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return ax


def _check(graph, step, show, highlight, direction) -> tuple[list, list]:
    """Refuse what cannot be drawn; return the nodes and the steps, each in their order."""
    if not isinstance(graph, nx.DiGraph):
        raise TypeError(f"graph is {graph!r:.40}; draw needs a networkx.MultiDiGraph.")
    if not graph or not nx.is_directed_acyclic_graph(graph):
        raise ValueError(
            f"graph has {'a cycle' if graph else 'no nodes'}; draw needs nodes, acyclic."
        )
    first = {node: i for i, node in enumerate(graph)}
    order = list(nx.lexicographical_topological_sort(graph, first.get))
    moments = [
        (n, False) for n in order if {"value", "tangent"} & graph.nodes[n].keys()
    ]
    moments += [(n, True) for n in order[::-1] if "adjoint" in graph.nodes[n]]
    for item in highlight:
        if item not in graph and not (
            isinstance(item, tuple) and graph.has_edge(*item)
        ):
            raise ValueError(
                f"highlight names {item!r}, which is no node and no edge of graph."
            )
    if step is not None and not 0 <= step <= len(moments):
        raise ValueError(f"step is {step}; this graph has steps 0 to {len(moments)}.")
    for name, given, accepted in (
        ("show", set(show), set(_ROWS)),
        ("direction", {direction}, {None, "right", "down"}),
    ):
        if not given <= accepted:
            raise ValueError(f"{name} is {given - accepted}; accepted are {accepted}.")
    return order, moments


def _layout(graph, order, back, sizes, room) -> tuple[dict, list, float]:
    """Places of nodes and paths of edges, as (across, along) in points, and the whole length."""
    side = {node: 2 * (node in back) for node in order}  # 1: bends between the two
    level: dict[Hashable, int] = {}
    for node in order:
        if node not in back:
            level[node] = 1 + max(
                (level[p] for p in graph.predecessors(node)), default=-1
            )
    for node in order[::-1]:
        later = [level[s] for s in graph.successors(node) if side[s] == side[node]]
        if node in back:
            level[node] = 1 + max(later, default=-1)
        elif later and not graph.in_degree(node):
            level[node] = min(later) - 1

    rows, near, chains = defaultdict(list), defaultdict(list), {}
    for node in order:
        rows[side[node], level[node]].append(node)
    for tail, head in dict.fromkeys(graph.edges()):
        toward = 1 if level[head] > level[tail] else -1
        between = range(level[tail] + toward, level[head], toward)
        chain = [tail, *(("bend", tail, head, k) for k in between), head]
        for bend in chain[1:-1]:
            level[bend] = bend[-1]
            side[bend] = side[tail] if side[tail] == side[head] else 1
            rows[side[bend], level[bend]].append(bend)
        for a, b in pairwise(chain):
            if side[a] == side[b]:
                near[a].append(b)
                near[b].append(a)
        chains[tail, head] = chain

    wide = {item: sizes[item][0] + 16 if item in sizes else 16 for item in side}
    x = dict.fromkeys(side, 0.0)
    for sweep in range(
        24
    ):  # first from layer to layer, to and fro, then with both neighbours
        for at in sorted(rows, reverse=sweep % 2 == 1):
            last = at[1] - (-1) ** sweep
            wish = {}
            for item in rows[at]:
                seen = [x[i] for i in near[item] if sweep >= 12 or level[i] == last]
                wish[item] = round(float(np.mean(seen or x[item])), 3)
            rows[at].sort(key=wish.get)
            end = -np.inf
            for item in rows[at]:
                x[item] = max(wish[item], end + wide[item] / 2)
                end = x[item] + wide[item] / 2
            shift = np.mean([wish[item] - x[item] for item in rows[at]])
            x.update({item: x[item] + shift for item in rows[at]})
    end = 0.0
    for part in range(3):
        items = [item for item in side if side[item] == part]
        shift = end - min((x[item] - wide[item] / 2 for item in items), default=0.0)
        x.update({item: x[item] + shift for item in items})
        end = max((x[item] + wide[item] / 2 for item in items), default=end)

    levels = range(max(level.values()) + 1)
    thick = [
        max((sizes[n][1] for n in order if level[n] == k), default=0.0) for k in levels
    ]
    gap = np.clip((room - sum(thick) - 2 * _MARGIN) / max(1, levels[-1]), 30, 70)
    middle = np.cumsum(thick) - np.array(thick) / 2 + gap * np.arange(len(thick))

    ports = defaultdict(list)
    for (tail, head), chain in chains.items():
        for copy in range(graph.number_of_edges(tail, head)):
            for node, onward, end in ((tail, chain[1], 0), (head, chain[-2], 1)):
                place = (node, np.sign(level[onward] - level[node]))
                ports[place].append((x[onward], tail, head, copy, end))
    offset = {}
    for place, arrows in ports.items():
        arrows.sort(key=lambda arrow: arrow[0])
        spread = min(14.0, sizes[place[0]][0] / len(arrows))
        for i, (_, *arrow) in enumerate(arrows):
            offset[tuple(arrow)] = (i - (len(arrows) - 1) / 2) * spread

    routes = []
    for (tail, head), chain in chains.items():
        edges = graph.get_edge_data(tail, head)
        edges = list(edges.values()) if graph.is_multigraph() else [edges]
        for copy, data in enumerate(edges):
            xs = np.array([x[item] for item in chain]) + 10 * (
                copy - (len(edges) - 1) / 2
            )
            xs[0], xs[-1] = (
                x[n] + offset[tail, head, copy, e] for e, n in enumerate((tail, head))
            )
            points, codes = [(xs[0], middle[level[tail]])], [Path.MOVETO]
            for (a, k), (b, m) in pairwise(zip(xs, map(level.get, chain), strict=True)):
                toward = 1 if m >= k else -1
                leave = middle[k] + toward * thick[k] / 2
                arrive = leave if m == k else middle[m] - toward * thick[m] / 2
                half = leave + gap / 2 if m == k else (leave + arrive) / 2
                points += [(a, leave), (a, half), (b, half), (b, arrive)]
                codes += [Path.LINETO] + 3 * [Path.CURVE4]
            path = Path([*points, (xs[-1], middle[level[head]])], [*codes, Path.LINETO])
            routes.append(((tail, head, bool(data.get("cut"))), path))
    places = {node: np.array([x[node], middle[level[node]]]) for node in order}
    return places, routes, middle[-1] + thick[-1] / 2 + 2 * _MARGIN


class _Along(ConnectionStyle.Arc3):
    """Lead an arrow along a path in the units of the axes; the base class clips it at the boxes."""

    def __init__(self, path: Path, ax: Axes) -> None:
        super().__init__()
        self.path, self.ax = path, ax

    def connect(self, posA: object, posB: object) -> Path:
        return self.path.transformed(self.ax.transData)


def _text(value: object) -> str:
    """A number in four digits, a small array in full, the shape of a larger one, else str."""
    if isinstance(value, str) or value is None:
        return str(value)
    array = np.asarray(value)
    if array.size > 3 or array.ndim > 1:
        return "×".join(map(str, array.shape)) + " numbers"
    if array.ndim:
        return f"[{', '.join(map(_text, array.tolist()))}]"
    return (f"{array:.4g}" if array.dtype.kind in "fiu" else str(array)).replace(
        "-", "−"
    )
