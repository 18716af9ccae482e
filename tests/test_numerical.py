"""Finite differences and the complex step: theory, limits, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.numerical import METHODS, derivative, gradient, jacobian

ORDER = {"forward": 1, "backward": 1, "central": 2, "richardson": 4}
EXACT = settings(derandomize=True, deadline=None, max_examples=100)


def f(x, y):
    return np.sin(x) - y**3


def swell(x):
    """Fourth iterate of the logistic map; its slope at 0.2 is 708288/78125."""
    return 64 * x * (1 - x) * (1 - 2 * x) ** 2 * (1 - 8 * x + 8 * x**2) ** 2


def counted(g):
    def counting(*args):
        counting.calls += 1
        return g(*args)

    counting.calls = 0
    return counting


def best_step(g, x, truth, method):
    """Step and error at the bottom of the U: the best of a running maximum."""
    x = np.asarray(x)
    steps = np.logspace(-14 if x.dtype == np.float64 else -6, -0.5, 1401)
    slopes = derivative(g, x, method=method, step=steps)
    error = np.abs(slopes.astype(float) - truth) / abs(truth)
    window = np.lib.stride_tricks.sliding_window_view(error, 41).max(axis=1)
    return steps[np.argmin(window) + 20], window.min()


# Values


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("forward", 2e-7),
        ("backward", 4e-7),
        ("central", 1e-10),
        ("richardson", 2e-11),
        ("complex", 0.0),
    ],
)
def test_the_running_example(method, error):
    gx, gy = gradient(f, 3.0, 5.0, method=method)
    assert abs(gx - np.cos(3.0)) <= error
    assert abs(gy + 75.0) <= 75 * error


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_dtype_of_x_stays(method, dtype):
    x = np.array([0.5, 1.0], dtype)
    for slopes in (
        derivative(np.exp, x, method=method),
        jacobian(np.exp, x, method=method).diagonal(),
        gradient(lambda z: np.sum(np.exp(z)), x, method=method),
    ):
        assert slopes.dtype == dtype
        eps = np.finfo(dtype).eps
        p = ORDER.get(method, 10)
        assert np.allclose(slopes, np.exp(x), rtol=4 * eps ** (p / (p + 1)))


def test_shapes():
    x, s = np.arange(6.0).reshape(2, 3), 2.0
    jx, js = jacobian(lambda x, s: s * np.sum(x**2, axis=1), x, s)
    assert jx.shape == (2, 2, 3) and js.shape == (2,)
    assert np.allclose(jx[0, 0], 4 * x[0]) and np.allclose(jx[0, 1], 0)
    gx, gs = gradient(lambda x, s: s * np.sum(x**2), x, s)
    assert gx.shape == (2, 3) and gs.shape == ()
    assert jacobian(np.sin, 1.0).shape == ()
    assert isinstance(gradient(np.sin, 1.0), np.float64)
    circle = derivative(lambda t: np.stack([np.cos(t), np.sin(t)]), 0.0)
    assert np.allclose(circle, [0, 1])


def test_a_function_may_spoil_its_argument_and_reuse_its_result():
    buffer = np.empty(2)

    def rude(x):
        x *= 2
        return np.square(x, out=buffer)

    x = np.array([1.0, 3.0])
    for method in ORDER:
        assert np.allclose(derivative(rude, x, method=method), 8 * x)
        assert np.allclose(jacobian(rude, x, method=method), np.diag(8 * x))
    assert x.tolist() == [1.0, 3.0]


# Evaluations


@pytest.mark.parametrize(
    ("method", "calls"),
    list(zip(METHODS, [4, 4, 6, 12, 3], strict=True)),
)
def test_evaluations_for_three_inputs(method, calls):
    g = counted(lambda x, y: np.sum(x**2) * y)
    gradient(g, np.ones(2), 3.0, method=method)
    assert g.calls == calls
    h = counted(lambda x, y: x**2 * y)
    jacobian(h, np.ones(2), 3.0, method=method)
    assert h.calls == calls


@pytest.mark.parametrize(
    ("method", "calls"), list(zip(METHODS, [2, 2, 2, 4, 1], strict=True))
)
@pytest.mark.parametrize("points", [1, 1000])
def test_derivative_takes_all_points_at_once(method, calls, points):
    g = counted(np.exp)
    derivative(g, np.linspace(0, 1, points), method=method)
    assert g.calls == calls


# Steps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["forward", "backward", "central"])
@EXACT
@given(data=st.data())
def test_the_step_is_representable(dtype, method, data):
    # (x + h - x) / h is 1, to the last bit, at each x.
    width = np.finfo(dtype).bits
    x = data.draw(st.floats(-(2.0**100), 2.0**100, width=width).map(dtype))
    assert derivative(lambda z: z, x, method=method) == 1
    step = dtype(data.draw(st.floats(1e-6, 1.0)) * max(1, abs(x)))
    assert derivative(lambda z: z, x, method=method, step=step) == 1


def test_a_step_that_is_not_representable_costs_digits():
    x, h = 0.1, 1e-8
    assert (x + h - x) / h != 1


@pytest.mark.parametrize("method", METHODS)
def test_many_steps_are_one_call(method):
    steps = np.array([1e-2, 1e-3])
    g = counted(np.sin)
    together = derivative(g, 1.0, method=method, step=steps)
    assert g.calls <= 4
    alone = [derivative(np.sin, 1.0, method=method, step=h) for h in steps]
    assert np.allclose(together, alone, rtol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "method", "predicted", "error"),
    [
        (np.float64, "forward", 1.5e-8, 8e-9),
        (np.float64, "central", 6.1e-6, 8.5e-12),
        (np.float64, "richardson", 1.5e-3, 7.6e-14),
        (np.float32, "forward", 3.5e-4, 2.7e-4),
        (np.float32, "central", 4.9e-3, 5.7e-6),
        (np.float32, "richardson", 6e-2, 8e-7),
    ],
)
@pytest.mark.parametrize("g", [np.sin, np.exp])
def test_best_steps_and_errors_are_those_of_theory(
    dtype, method, predicted, error, g
):
    x = dtype(1)
    truth = {np.sin: np.cos, np.exp: np.exp}[g](1.0)
    step, least = best_step(g, x, truth, method)
    assert predicted / 4 < step < predicted * 4
    assert error / 5 < least < error * 5
    chosen = abs(float(derivative(g, x, method=method)) - truth) / truth
    assert chosen < 8 * least


@pytest.mark.parametrize("method", ORDER)
def test_both_branches_of_the_u(method):
    p = ORDER[method]
    large = derivative(np.sin, 1.0, method=method, step=np.array([0.2, 0.1]))
    wide, narrow = np.abs(large - np.cos(1.0))
    assert np.log2(wide / narrow) == pytest.approx(p, abs=0.1)
    steps = np.logspace(-13, -11, 400), np.logspace(-11, -9, 400)
    small, wider = (
        np.mean(
            np.abs(derivative(np.sin, 1.0, method=method, step=s) - np.cos(1))
        )
        for s in steps
    )
    if p > 1:  # a forward difference has left the branch at 1e-9
        assert small / wider == pytest.approx(100, rel=0.5)


def test_where_the_textbook_step_is_ten_times_too_large():
    truth = 708288 / 78125
    for method, textbook, least in (
        ("forward", 1.5e-8, 5.7e-8),
        ("central", 6.1e-6, 2e-10),
    ):
        step, error = best_step(swell, 0.2, truth, method)
        assert 5 < textbook / step < 30
        assert error * truth < 5 * least
    # What theory says when it is told f'' = 67.4 and f''' = -3949.
    value, eps = swell(0.2), np.finfo(float).eps
    assert 2 * np.sqrt(eps * value / 67.4) == pytest.approx(1.9e-9, rel=0.6)
    assert (3 * eps * value / 3949) ** (1 / 3) == pytest.approx(3.6e-7, rel=0.6)


def test_central_differences_are_exact_on_quadratics():
    # All of 3 (x + h)**2 fits into 53 bits for these steps.
    steps = 2.0 ** -np.arange(0, 20)
    slopes = derivative(lambda x: 3 * x**2 - x, 1.25, step=steps)
    assert np.all(slopes == 6.5)
    steps = np.array([1e-1, 1e-5, 1e-9])
    error = np.abs(
        derivative(lambda x: (x - 0.3) ** 2 / 7, 1.1, step=steps) - 1.6 / 7
    )
    assert error[0] < 1e-15 and error[0] < error[1] < error[2]


def test_an_absolute_step_is_a_trap_in_float32():
    x = np.float32(1e4)
    assert derivative(np.square, x, step=2.0**-10) == 16384
    assert derivative(np.square, x) == pytest.approx(20000, rel=1e-6)
    assert derivative(np.square, 1e4, step=2.0**-10) == pytest.approx(20000)


# The complex step


@pytest.mark.parametrize("step", [None, 1e-20, 1e-200, 1e-300])
def test_the_complex_step_has_no_round_off(step):
    def g(x):
        return np.exp(x) / (np.sin(x) ** 3 + np.cos(x) ** 3)

    slope = derivative(g, 1.5, method="complex", step=step)
    assert slope == pytest.approx(3.62203370071632604, rel=1e-15)
    if step is not None:
        assert g(1.5 + step) - g(1.5 - step) == 0
        with pytest.raises(ValueError, match="vanishes next to x"):
            derivative(g, 1.5, step=step)


@pytest.mark.parametrize("g", [np.abs, np.real, lambda z: 1.0, lambda z: z > 0])
def test_the_complex_step_refuses_what_is_real(g):
    with pytest.raises(TypeError, match="throws the imaginary part away"):
        derivative(g, 1.0, method="complex")


def test_a_hidden_abs_misleads_the_complex_step():
    # Documented: nothing in the result shows it.
    def g(z):
        return np.abs(z) * z

    assert derivative(g, 1.0, method="complex") == 1
    assert derivative(g, 1.0) == pytest.approx(2)


# NaN and infinity are values


@pytest.mark.parametrize("method", METHODS)
def test_nan_and_inf_are_carried_through(method):
    x = np.array([np.nan, np.inf, -np.inf, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slopes = derivative(lambda z: z * z, x, method=method)
    assert slopes[3] == pytest.approx(4, rel=1e-6)
    assert np.isnan(slopes[0]) and not np.any(np.isfinite(slopes[:3]))


def test_an_infinite_value_makes_an_infinite_or_undefined_slope():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert derivative(np.log, 0.0, method="forward") == np.inf
        assert np.isnan(derivative(np.log, 0.0))


# Errors stay within what theory gives


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    coefficients=st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=7),
    x=st.floats(-8, 8, width=32),
    exponent=st.one_of(st.none(), st.integers(-12, -1)),
)
def test_polynomials_within_the_bound(dtype, method, coefficients, x, exponent):
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    h = 2.0**exponent if exponent is not None else None
    step = None if method == "complex" else h
    c = np.array(coefficients, dtype)
    p = np.polynomial.Polynomial(c.astype(float))

    def horner(z):
        y = 0 * z
        for a in c[::-1]:
            y = y * z + a
        return y

    got = derivative(horner, dtype(x), method=method, step=step)
    order = ORDER.get(method)
    largest = np.polynomial.Polynomial(np.abs(c).astype(float))
    if method == "complex":
        # Parts below the smallest number, times h, are lost: x**2 at 1e-31.
        lost = float(np.finfo(dtype).smallest_subnormal) / np.sqrt(tiny)
        bound = len(c) * (8 * eps * largest.deriv()(abs(x)) + 2 * lost)
    else:
        if h is None:
            h = eps ** (1 / (order + 1)) * max(1, abs(x)) / 4
            reach = 4 * h  # a power of two, not above the h of theory
        else:
            reach = 1.01 * h
        edge = abs(x) + reach
        rest = p.deriv(order + 1)
        slope = np.polynomial.Polynomial(np.abs(rest.coef))(edge)
        truncation = slope * reach**order / {1: 2, 2: 6, 4: 120}[order]
        rounding = 2 * len(c) * eps * largest(edge) / h
        bound = truncation + 4 * rounding + eps * abs(p.deriv()(x))
    assert abs(float(got) - p.deriv()(x)) <= bound


@EXACT
@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=5),
    st.sampled_from(METHODS),
)
def test_all_at_once_is_one_by_one(points, method):
    def g(z):
        return z * z * z - 2 * z

    together = derivative(g, np.array(points), method=method)
    alone = [derivative(g, x, method=method) for x in points]
    assert together.tolist() == alone
    summed = gradient(lambda z: np.sum(g(z)), np.array(points), method=method)
    scale = max(1.0, *map(abs, points)) ** 3
    assert np.allclose(summed, together, atol=1e-6 * scale)
