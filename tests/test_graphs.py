"""The drawing of computation graphs: what is in it, and how it looks."""

from __future__ import annotations

import hashlib
import io
import math
import os
import subprocess
import sys
from itertools import combinations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.offsetbox import AnnotationBbox
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from utils import forward_mode, reverse_mode
from utils.figures import use_style
from utils.graphs import TRIVIAL, draw, from_tensorflow, from_trace

placeholder = tf.compat.v1.placeholder


@pytest.fixture(autouse=True)
def style():
    with plt.rc_context():
        use_style()
        yield
        plt.close("all")


def running_in_graph():
    with tf.Graph().as_default():
        x = placeholder(tf.float32, [], name="x")
        y = placeholder(tf.float32, [], name="y")
        f = tf.sin(x) - y**3
        return f, [x, y], tf.gradients(f, [x, y])


def running_in_function():
    @tf.function(autograph=False)
    def f(x, y):
        z = tf.sin(x) - y**3
        return z, tf.gradients(z, [x, y])

    number = tf.TensorSpec([])
    concrete = f.get_concrete_function(number, number)
    f, *gradients = concrete.outputs
    return f, concrete.inputs, gradients


def tricked(early: bool):
    with tf.Graph().as_default():
        x = placeholder(tf.float32, [], name="x")
        u = placeholder(tf.float32, [], name="u")
        y, g = tf.square(x), tf.sqrt
        if early:
            z = g(y + tf.stop_gradient(y * u - y))
        else:
            z = g(y) + tf.stop_gradient(g(y * u) - g(y))
        return from_tensorflow(z, [x, u], at=(-2.0, 1.05))


def doubled():
    with tf.Graph().as_default():
        a = placeholder(tf.float32, [], name="a")
        b = tf.add(a, a, name="b")
        c = tf.add(b, b, name="c")
        return from_tensorflow(c, a, at=[1.0])


def crossed():
    graph = nx.MultiDiGraph()
    for i in range(12):
        graph.add_node(i, value=i, adjoint=[1.0, -2.0], tangent=math.nan)
        sources = (i - 1, i // 2, i // 3)
        graph.add_edges_from((j, i) for j in sources if 0 <= j < i)
    return graph


def labels(graph, kind=None):
    nodes = graph.nodes.values()
    return [n["label"] for n in nodes if kind in (None, n["kind"])]


def column(graph, key):
    return {node["label"]: node[key] for node in graph.nodes.values()}


@pytest.mark.parametrize("build", [running_in_graph, running_in_function])
def test_running_example(build):
    f, inputs, gradients = build()
    before = len(f.graph.get_operations())
    graph = from_tensorflow(f, inputs, at=(3.0, 5.0))
    assert labels(graph) == ["x", "y", "Sin", "Pow(·, 3)", "Sub"]
    assert labels(graph, "input") == ["x", "y"]
    assert list(graph.edges()) == [
        ("x", "Sin"),
        ("y", "pow"),
        ("Sin", "sub"),
        ("pow", "sub"),
    ]
    assert column(graph, "value")["Sub"] == pytest.approx(math.sin(3) - 125)
    adjoints = column(graph, "adjoint")
    assert adjoints["x"] == pytest.approx(math.cos(3))
    assert [adjoints[k] for k in ("y", "Sin", "Sub")] == [-75, 1, 1]

    graph = from_tensorflow(f, inputs, gradients=gradients, at=(3.0, 5.0))
    assert labels(graph, "op") == ["Sin", "Pow(·, 3)", "Sub"]
    assert labels(graph, "gradient") == [
        "Fill(1)",
        "Neg",
        "Cos",
        "∂/∂x: Mul",
        "Mul(·, 3)",
        "Sub(3, 1)",
        "Pow",
        "∂/∂y: Mul",
    ]
    values = column(graph, "value")
    assert values["∂/∂x: Mul"] == pytest.approx(math.cos(3))
    assert values["∂/∂y: Mul"] == -75
    assert not any("adjoint" in node for node in graph.nodes.values())
    assert len(f.graph.get_operations()) == before


def test_numbers_come_only_when_asked_for():
    f, inputs, _ = running_in_graph()
    graph = from_tensorflow(f, inputs)
    keys = {key for node in graph.nodes.values() for key in node}
    assert keys == {"label", "kind"}


def test_an_argument_used_twice_has_two_edges():
    graph = doubled()
    assert graph.number_of_edges("a", "b") == 2
    assert graph.number_of_edges("b", "c") == 2
    assert [n["adjoint"] for n in graph.nodes.values()] == [4, 2, 1]


@pytest.mark.parametrize(
    ("early", "slope"), [(True, -2 / math.sqrt(4 * 1.05)), (False, -1)]
)
def test_stop_gradient_cuts_an_edge(early, slope):
    graph = tricked(early)
    cuts = [edge[:2] for edge in graph.edges(data="cut") if edge[2]]
    assert [head for _, head in cuts] == ["StopGradient"]
    assert graph.nodes[cuts[0][0]]["adjoint"] is None
    adjoints = column(graph, "adjoint")
    assert adjoints["u"] is None
    assert adjoints["x"] == pytest.approx(slope)
    last = list(graph.nodes.values())[-1]
    assert last["value"] == pytest.approx(math.sqrt(4 * 1.05))


def test_what_is_hidden_can_be_shown():
    with tf.Graph().as_default():
        x = placeholder(tf.float32, name="x")
        f = tf.identity(x) * 2.0 + tf.constant([1.0, 2.0], name="bias")
        gradients = tf.gradients(f, [x])
    default = from_tensorflow(f, [x])
    assert labels(default) == ["x", "Mul(·, 2)", "bias", "AddV2"]
    full = from_tensorflow(f, [x], hide=())
    assert labels(full) == ["x", "Identity", "y", "Mul", "bias", "AddV2"]
    from_identity = from_tensorflow(f, [f.op.inputs[0].op.inputs[0]])
    assert labels(from_identity)[0] == "Identity"
    by_shape = from_tensorflow(f, [x], gradients=gradients)
    assert {"Sum", "Reshape"} <= set(labels(by_shape, "gradient"))
    hide = TRIVIAL | {"Sum", "Reshape"}
    short = from_tensorflow(f, [x], gradients=gradients, hide=hide)
    assert labels(short, "gradient") == ["Fill(1)", "∂/∂x: Mul(·, 2)"]


def test_a_gradient_that_is_a_constant_is_drawn():
    @tf.function(autograph=False)
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x + 2.0
        return y, tape.gradient(y, x)

    y, gradient = f.get_concrete_function(tf.TensorSpec([])).outputs
    graph = from_tensorflow(y, gradients=[gradient])
    assert labels(graph, "gradient") == ["ones"]


def test_variables():
    w, data = tf.Variable(2.0, name="w"), tf.constant(np.arange(99.0))

    @tf.function(autograph=False)
    def f(x):
        return w * w * tf.reduce_sum(x * data)

    spec = tf.TensorSpec([99], tf.float64)
    w = tf.Variable(np.float64(2), name="w")
    concrete = f.get_concrete_function(spec)
    x, at = concrete.inputs[0], (np.ones(99), 3.0, np.arange(99.0))
    graph = from_tensorflow(concrete.outputs, [x, w, data], at=at)
    assert column(graph, "adjoint")["w"] == 2 * 3 * data.numpy().sum()

    with tf.Graph().as_default():
        w = tf.Variable(2.0, name="scope/w")
        f = w * w
        gradients = tf.gradients(f, w)
    graph = from_tensorflow(f, w, at=[3.0])
    assert column(graph, "value") == {"w": 3, "Mul": 9}
    assert column(graph, "adjoint") == {"w": 6, "Mul": 1}
    graph = from_tensorflow(f, w, gradients=gradients, at=[3.0])
    assert column(graph, "value")["∂/∂w: AddN"] == 6


def test_an_integer_has_no_adjoint():
    with tf.Graph().as_default():
        k = placeholder(tf.int32, [], name="k")
        graph = from_tensorflow(k * k - 1, k, at=[3])
    assert column(graph, "value")["Mul"] == 9
    assert graph.nodes["k"]["adjoint"] is None


def with_gradients(build=running_in_graph, **values):
    f, inputs, gradients = build()
    return from_tensorflow(f, inputs, gradients=gradients, **values)


PICTURES = {
    "running": lambda: from_tensorflow(*running_in_graph()[:2], at=(3, 5)),
    "gradients": with_gradients,
    "gradients with values": lambda: with_gradients(at=(3, 5)),
    "doubled": doubled,
    "early": lambda: tricked(True),
    "last": lambda: tricked(False),
    "crossed": crossed,
    "one node": lambda: nx.MultiDiGraph({"x": []}),
    "simple": lambda: nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")]),
}


def parts(ax, of):
    return [artist for artist in ax.get_children() if isinstance(artist, of)]


@pytest.mark.parametrize("direction", ["right", "down"])
@pytest.mark.parametrize("name", PICTURES)
def test_nothing_overlaps(name, direction):
    graph = PICTURES[name]()
    ax = draw(graph, direction=direction, caption="A line\nand another")
    ax.figure.canvas.draw()
    page = ax.figure.bbox
    assert page.width >= 6.4 * ax.figure.dpi - 1
    frames = [b.patch.get_window_extent() for b in parts(ax, AnnotationBbox)]
    assert len(frames) == len(graph)
    for a, b in combinations(frames, 2):
        assert not a.overlaps(b)
    for frame in frames:
        assert page.contains(*frame.min) and page.contains(*frame.max)
        assert not frame.overlaps(ax._left_title.get_window_extent())
    arrows = parts(ax, FancyArrowPatch)
    assert len(arrows) == graph.number_of_edges()
    for arrow in arrows:
        path = arrow.get_transform().transform_path(arrow.get_path())
        for line in path.to_polygons(closed_only=False):
            assert all(page.contains(*point) for point in line)
            for frame in frames:
                assert not Path(line).intersects_bbox(frame, filled=False)


def test_two_edges_are_two_arrows():
    arrows = parts(draw(doubled()), FancyArrowPatch)
    starts = [tuple(arrow.get_path().vertices[0]) for arrow in arrows]
    assert len(set(starts)) == 4


def test_no_two_arrows_end_in_one_point():
    with tf.Graph().as_default():
        x = placeholder(tf.float32, [], name="x")
        z = x * tf.sin(x)
        graph = from_tensorflow(z, x, gradients=tf.gradients(z, x))
    for direction in ("right", "down"):
        ends = [
            tuple(arrow._posA_posB[end].round(6))
            for arrow in parts(
                draw(graph, direction=direction), FancyArrowPatch
            )
            for end in (0, 1)
        ]
        assert len(set(ends)) == len(ends)


def places(graph, direction=None):
    boxes = parts(draw(graph, direction=direction), AnnotationBbox)
    return dict(zip(graph, (box.xy for box in boxes), strict=True))


def test_directions():
    graph = with_gradients()
    right, down = places(graph, "right"), places(graph, "down")
    assert right["x"][0] < right["Sin"][0] < right["sub"][0]
    assert down["x"][1] > down["Sin"][1] > down["sub"][1]
    seed, neg = "gradients/grad_ys_0", "gradients/sub_grad/Neg"
    assert right[seed][0] > right[neg][0]
    assert down[seed][1] < down[neg][1]


def test_gradient_ops_stand_apart():
    forward, backward = ["x1", "y1", "x2", "y2"], ["g", "dx"]
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(forward[:2])
    graph.add_nodes_from(backward, kind="gradient")
    graph.add_nodes_from(forward[2:])
    graph.add_edges_from([("x1", "y1"), ("x2", "y2"), ("x1", "g"), ("g", "dx")])
    x = {node: place[0] for node, place in places(graph, "down").items()}
    assert max(x[n] for n in forward) < min(x[n] for n in backward)


def test_crossings_are_avoided():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from("abcdef")
    graph.add_edges_from(["af", "bd", "ce"])
    y = {node: place[1] for node, place in places(graph).items()}
    for (tail, head), (other, onto) in combinations(graph.edges(), 2):
        assert (y[tail] - y[other]) * (y[head] - y[onto]) > 0


def rows(box):
    texts = [area._text for area in box.offsetbox.get_children()]
    return [t.get_text() for t in texts if t.get_alpha() in (None, 1)]


def test_steps():
    graph = doubled()
    frames = [
        parts(draw(graph, step=step), AnnotationBbox) for step in range(7)
    ]
    written = [[len(rows(box)) - 1 for box in boxes] for boxes in frames]
    assert written == [
        [0, 0, 0],
        [1, 0, 0],
        [1, 1, 0],
        [1, 1, 1],
        [1, 1, 2],
        [1, 2, 2],
        [2, 2, 2],
    ]
    heavy = [
        [box.patch.get_linewidth() > 2 for box in boxes].index(True)
        for boxes in frames[1:]
    ]
    assert heavy == [0, 1, 2, 2, 1, 0]
    for boxes in frames[1:]:
        for box, first in zip(boxes, frames[0], strict=True):
            assert np.array_equal(box.xy, first.xy)


def test_what_is_written():
    graph = nx.MultiDiGraph()
    graph.add_node("a", value=-1234567.0, tangent=np.inf, adjoint=None)
    graph.add_node("b", value=np.array([1.0, -2.5]), tangent="x", adjoint=True)
    graph.add_node("c", label="C", value=np.ones((2, 3)), tangent=math.nan)
    boxes = parts(draw(graph), AnnotationBbox)
    minus = "\N{MINUS SIGN}"
    value, tangent, adjoint = "$v$ = ", r"$\dot{v}$ = ", r"$\bar{v}$ = "
    assert [rows(box) for box in boxes] == [
        ["a", f"{value}{minus}1.235e+06", f"{tangent}inf", f"{adjoint}None"],
        ["b", f"{value}[1, {minus}2.5]", f"{tangent}x", f"{adjoint}True"],
        ["C", f"{value}array (2, 3)", f"{tangent}nan"],
    ]
    boxes = parts(draw(graph, show=["tangent"]), AnnotationBbox)
    assert rows(boxes[0]) == ["a", f"{tangent}inf"]


def test_highlight_and_given_axes():
    figure, axes = plt.subplots(2)
    ax = draw(doubled(), axes[1], highlight=["c", ("a", "b")])
    assert ax is axes[1] and len(figure.axes) == 2
    figure.canvas.draw()
    widths = [box.patch.get_linewidth() for box in parts(ax, AnnotationBbox)]
    assert widths[2] > widths[0] == widths[1]
    widths = [arrow.get_linewidth() for arrow in parts(ax, FancyArrowPatch)]
    assert widths[0] == widths[1] > widths[2] == widths[3]


def picture(graph) -> str:
    file = io.BytesIO()
    draw(graph).figure.savefig(file, format="png", bbox_inches="tight")
    return hashlib.sha256(file.getvalue()).hexdigest()


@pytest.mark.parametrize("name", ["gradients with values", "last"])
def test_same_picture_each_time(name):
    assert picture(PICTURES[name]()) == picture(PICTURES[name]())


def test_same_picture_in_each_process():
    code = (
        "import hashlib, io, networkx as nx; from utils.graphs import draw;"
        "g = nx.MultiDiGraph((f'n{j}', f'n{i}') for i in range(14)"
        " for j in (i - 1, i // 2, i // 3) if 0 <= j < i); f = io.BytesIO();"
        "draw(g).figure.savefig(f); print(hashlib.sha256(f.getvalue()).digest())"
    )
    run = [sys.executable, "-c", code]
    outputs = {
        subprocess.check_output(
            run, env={**os.environ, "PYTHONHASHSEED": seed, "MPLBACKEND": "agg"}
        )
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_trace_of_the_books_engines():
    def f(x, y):
        return np.sin(x) - y**3

    backward = from_trace(reverse_mode.trace(f, (3.0, 5.0)))
    assert [node["label"] for _, node in backward.nodes(data=True)] == [
        "x",
        "y",
        "v1 = sin(x)",
        "v2 = y ** 3",
        "v3 = v1 - v2",
    ]
    assert list(backward.edges()) == [
        ("x", "v1"),
        ("y", "v2"),
        ("v1", "v3"),
        ("v2", "v3"),
    ]
    assert backward.nodes["y"]["adjoint"] == -75.0
    assert "tangent" not in backward.nodes["y"]
    forward = from_trace(forward_mode.trace(f, (3.0, 5.0), (0.0, 1.0)))
    assert forward.nodes["v3"]["tangent"] == -75.0
    assert "adjoint" not in forward.nodes["v3"]
    twice = from_trace(reverse_mode.trace(lambda x: x + x, 2.0))
    assert twice.number_of_edges("x", "v1") == 2
