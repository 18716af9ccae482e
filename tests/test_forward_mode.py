"""Forward mode: tangents, nesting, the evaluation trace."""

from __future__ import annotations

import math

import numpy as np
import pytest

from utils.forward_mode import Dual, derivative, jacobian, jvp, trace


def f(x, y):
    return np.sin(x) - y**3


def test_the_running_example():
    assert jvp(f, (3.0, 5.0), (1.0, 0.0)) == math.cos(3)
    assert jvp(f, (3, 5), (0, 1)) == -75
    assert jvp(f, (3.0, 5.0), (2.0, -1.0)) == 2 * math.cos(3) + 75
    assert jacobian(f, 3.0, 5.0) == (math.cos(3), -75)


def test_a_dual_number_by_hand():
    x, y = Dual(2.0, 1.0), Dual(3.0)
    z = x * y + np.sin(x)
    assert (z.value, z.tangent) == (6 + math.sin(2), 3 + math.cos(2))
    assert repr(2 / x) == "Dual(1.0, -0.5)"
    assert not x > y and x == 2 and x.shape == ()


def test_loops_and_branches():
    def root(x):
        t = x
        while abs(t * t - x) > 1e-15 * x:
            t = (t + x / t) / 2
        return t

    assert derivative(root, 9.0) == pytest.approx(1 / 6, rel=1e-15)
    assert derivative(lambda x: x * x if x > 0 else -x, -3.0) == -1


def test_points_and_curves():
    points = np.linspace(0, 1, 7)
    np.testing.assert_array_equal(derivative(np.sin, points), np.cos(points))
    circle = derivative(lambda t: np.stack([np.cos(t), np.sin(t)]), 0.5)
    np.testing.assert_array_equal(circle, [-math.sin(0.5), math.cos(0.5)])


def test_perturbations_are_not_confused():
    assert derivative(lambda x: x * derivative(lambda y: x + y, 1.0), 1.0) == 1
    assert derivative(lambda x: x * derivative(lambda y: x * y, 2.0), 3.0) == 6
    # The inner derivative sees the outer variable as a constant only.
    assert derivative(lambda x: derivative(lambda y: x, 1.0), 1.0) == 0
    third = derivative(
        lambda x: derivative(lambda y: derivative(lambda z: z**4, y), x), 2.0
    )
    assert third == 48


def test_a_jacobian_has_a_column_for_each_input():
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jacobian(lambda x: a @ x, np.ones(3)), a)
    assert jacobian(lambda x: x, a).shape == (2, 3, 2, 3)
    by_x, by_y = jacobian(lambda x, y: x * y, 2.0, np.ones(3))
    np.testing.assert_array_equal(by_x, np.ones(3))
    np.testing.assert_array_equal(by_y, 2 * np.eye(3))


def test_columns_are_runs():
    runs = 0

    def counted(x):
        nonlocal runs
        runs += 1
        return x * x

    jacobian(counted, np.ones(5))
    assert runs == 5


def test_a_constant_has_the_derivative_zero():
    assert derivative(lambda x: 3, 1.0) == 0
    np.testing.assert_array_equal(
        jacobian(lambda x: np.ones(2), np.ones(3)), np.zeros((2, 3))
    )


def test_float32_stays_float32():
    x = np.array([0.3, 0.5], np.float32)
    assert (
        jvp(lambda x: np.where(x > 0.4, 2**x, 0.0), x, [1, 1]).dtype == x.dtype
    )
    assert jacobian(lambda x: x / 3 + 1, x).dtype == x.dtype
    assert derivative(lambda x: 3, x[0]).dtype == x.dtype


def test_a_result_shares_no_memory_with_what_was_given():
    v = np.ones(3)
    assert not np.shares_memory(jvp(lambda x: x, v, v), v)


def test_trace():
    rows = trace(lambda a, b: a * b + np.sin(a), (2.0, 3.0), (1.0, 0.0))
    assert [f"{row.name} = {row.expression}" for row in rows] == [
        "a = a",
        "b = b",
        "v1 = a * b",
        "v2 = sin(a)",
        "v3 = v1 + v2",
    ]
    assert [row.tangent for row in rows] == [
        *(1, 0, 3, math.cos(2), 3 + math.cos(2))
    ]
    assert rows[-1].parents == (rows[2], rows[3])
    assert rows[-1].value == 6 + math.sin(2)
