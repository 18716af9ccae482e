"""Reverse mode: adjoints, the order of the walk, arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from utils.reverse_mode import Variable, gradient, jacobian, sweep, trace, vjp
from utils.wengert import wengert_list


def f(x, y):
    return np.sin(x) - y**3


def test_the_running_example():
    assert gradient(f, 3.0, 5.0) == (math.cos(3), -75)
    assert gradient(f, 3, 5) == (math.cos(3), -75)
    assert vjp(f, (3.0, 5.0), 2.0) == (2 * math.cos(3), -150)
    assert jacobian(f, 3.0, 5.0) == (math.cos(3), -75)


def test_a_graph_by_hand():
    a, b = Variable(2.0, "a"), Variable(1.0, "b")
    e = (a + b) * (b + 1)
    walk = [(node.expression, float(node.adjoint)) for node in sweep(e)]
    assert walk[0] == ("(a + b) * (b + 1)", 1)
    assert dict(walk)["b + 1"] == 3 and (a.adjoint, b.adjoint) == (2, 5)
    assert repr(e) == "Variable(6.0)" and repr(a) == "Variable(2.0, 'a')"


def test_an_adjoint_is_complete_when_it_is_yielded():
    x = Variable(2.0, "x")
    y = x * x + np.sin(x)
    partial = [float(x.adjoint or 0) for _ in sweep(y)]
    assert partial == [0, 0, math.cos(2), math.cos(2) + 2 + 2]


def test_each_node_is_visited_once_and_after_all_that_uses_it():
    a = x = Variable(1.0)
    for _ in range(60):
        a = a + a
    visited = list(sweep(a))
    assert len(visited) == 61 and x.adjoint == 2.0**60
    place = {node.index: k for k, node in enumerate(visited)}
    for node in visited:
        assert all(place[p.index] > place[node.index] for p in node.parents)

    # The second path to b = a + a is the longer one.
    def g(a):
        b = a + a
        return b + b

    assert gradient(g, 1.0) == 4


def test_a_chain_of_100_000_nodes():
    def chain(x):
        for _ in range(100_000):
            x = x + 1
        return x

    assert gradient(chain, 1.0) == 1


def test_fan_out_adds_up():
    assert gradient(lambda x: x + x * x + x**3, 2.0) == 1 + 4 + 12


def test_what_has_no_path_to_the_result():
    unused = np.ones(2)
    assert gradient(lambda x: 3.0, 1.0) == 0
    gx, gu = gradient(lambda x, u: x * x, 3.0, unused)
    assert gx == 6
    np.testing.assert_array_equal(gu, [0, 0])
    np.testing.assert_array_equal(
        jacobian(lambda x: np.ones(2), np.ones(3)), np.zeros((2, 3))
    )
    a, b = Variable(1.0), Variable(2.0)
    list(sweep(a + 1))
    assert b.adjoint is None


def test_broadcasting_sums_over_the_repeated_axes():
    w, b = np.arange(6.0).reshape(3, 2), np.zeros(2)
    x = np.arange(12.0).reshape(4, 3)
    gw, gb = gradient(lambda w, b: np.sum(x @ w + b), w, b)
    np.testing.assert_array_equal(gb, [4, 4])
    np.testing.assert_array_equal(gw, x.T @ np.ones((4, 2)))
    gs, gr, gc = gradient(
        lambda s, row, column: np.sum(s * row * column),
        *(2.0, np.ones((1, 3)), np.ones((4, 1))),
    )
    assert gs == 12
    np.testing.assert_array_equal(gr, np.full((1, 3), 8))
    np.testing.assert_array_equal(gc, np.full((4, 1), 6))


def test_an_index_used_twice_counts_twice():
    x = np.arange(3.0)
    np.testing.assert_array_equal(
        gradient(lambda x: np.sum(x[[0, 0, 2]]), x), [2, 0, 1]
    )
    np.testing.assert_array_equal(gradient(lambda x: sum(x), x), [1, 1, 1])


def test_tied_maxima_share():
    np.testing.assert_array_equal(
        gradient(np.max, np.array([1.0, 3.0, 3.0])), [0, 0.5, 0.5]
    )


def test_a_jacobian_has_a_row_for_each_output():
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jacobian(lambda x: a @ x, np.ones(3)), a)
    assert jacobian(lambda x: x, a).shape == (2, 3, 2, 3)
    by_x, by_y = jacobian(lambda x, y: x * y, 2.0, np.ones(3))
    np.testing.assert_array_equal(by_x, np.ones(3))
    np.testing.assert_array_equal(by_y, 2 * np.eye(3))


def test_the_hessian_by_walking_twice():
    hessian = jacobian(
        lambda x: gradient(lambda z: z[0] ** 2 * z[1], x), np.array([3.0, 5.0])
    )
    np.testing.assert_array_equal(hessian, [[10, 6], [6, 0]])


def test_float32_stays_float32():
    x = np.array([0.3, 0.5], np.float32)
    assert gradient(lambda x: np.mean(2**x), x).dtype == x.dtype
    # f may widen; the derivative with respect to x stays of the dtype of x
    assert gradient(lambda x: np.sum(x * np.ones(2)), x).dtype == x.dtype


def test_results_share_no_memory():
    x, u = np.ones(3), np.ones(3)
    gx, gy = gradient(lambda x, y: np.sum(x + y), x, x)
    gx[0] = 7
    np.testing.assert_array_equal(gy, [1, 1, 1])
    g = vjp(lambda x: x, x, u)
    g[0] = 7
    assert u[0] == 1
    g, h = vjp(lambda x, y: x + y, (x, x), u)
    assert not np.shares_memory(g, h)


def test_trace():
    rows = trace(lambda a, b: a * b + np.sin(a), (2.0, 3.0))
    assert [f"{row.name} = {row.expression}" for row in rows] == [
        *("a = a", "b = b"),
        *("v1 = a * b", "v2 = sin(a)", "v3 = v1 + v2"),
    ]
    assert [row.adjoint for row in rows] == [3 + math.cos(2), 2, 1, 1, 1]
    assert rows[-1].parents == (rows[2], rows[3])
    assert wengert_list(rows[-1]) == rows


def test_names_in_a_trace():
    # A parameter may be called v1, or have no name of its own.
    rows = trace(lambda v1: np.exp(2 * v1[0]) ** 2, np.ones(2))
    assert [row.name for row in rows] == ["v1", "v2", "v3", "v4", "v5"]
    assert [row.expression for row in rows[1:]] == [
        *("v1[0]", "2 * v2", "exp(v3)", "v4 ** 2")
    ]
    rows = trace(lambda *xs: xs[0] - xs[1], (1.0, 2.0))
    assert rows[2].expression == "x1 - x2"
    assert trace(lambda x, unused: -x, (1.0, 2.0))[1].adjoint is None


@pytest.mark.parametrize(
    "text",
    [
        *("a - (b - a)", "a - b - a", "(a + b) * a", "a / (b * a)", "-(a * b)"),
        *("(-a) ** 2", "-a ** 2", "(a ** b) ** a", "a ** (-b)", "(a - b) ** 2"),
    ],
)
def test_an_expression_reads_as_it_computes(text):
    names = {"a": Variable(2.0, "a"), "b": Variable(3.0, "b")}
    node = eval(text, names)
    assert eval(node.expression, names).value == node.value
    assert len(node.expression) <= len(text) + 2


def test_writing_an_entry_into_an_array_of_numbers():
    # NumPy words this one; the reason stands behind it.
    def stored(x):
        np.zeros(3)[0] = x[0]

    with pytest.raises(ValueError, match="setting an array element") as caught:
        gradient(stored, np.ones(3))
    assert "would lose its derivative" in str(caught.value.__cause__)
