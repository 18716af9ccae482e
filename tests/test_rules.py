"""Each rule of differentiation, at ordinary points and where it takes thought."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from utils import forward_mode, reverse_mode
from utils.rules import PARTIALS
from utils.symbolic import Symbol, differentiate, evaluate

# Where a function is defined, if not on all of (-2, 2), away from its kinks.
POSITIVE = (np.array([0.3, 1.0, 1.7]), np.array([1.2, 0.4, 2.5]))
WITHIN_ONE = (np.array([-0.8, 0.1, 0.6]),)
ANYWHERE = (np.array([-1.4, 0.2, 1.9]), np.array([0.7, -1.6, 1.1]))
POINTS = {
    **dict.fromkeys((np.sqrt, np.log, np.log2, np.log10, np.log1p), POSITIVE),
    **dict.fromkeys((np.power, operator.pow, np.cbrt), POSITIVE),
    **dict.fromkeys((np.arcsin, np.arccos, np.arctanh), WITHIN_ONE),
    np.arccosh: (np.array([1.1, 1.5, 3.0]),),
}
CASES = [
    pytest.param(f, i, id=f"{f.__name__}-{i}-{k}")
    for k, (f, partials) in enumerate(PARTIALS.items())
    for i in range(len(partials))
]


def point_of(f):
    return POINTS.get(f, ANYWHERE)[: len(PARTIALS[f])]


def along(f, args, i):
    """f as a function of its argument at place i."""
    return lambda x: f(*args[:i], x, *args[i + 1 :])


def central(f, x, h=6e-6):
    return (f(x + h) - f(x - h)) / (2 * h)


@pytest.mark.parametrize(("f", "i"), CASES)
def test_a_rule_is_the_slope_of_its_function(f, i):
    args = point_of(f)
    slope = PARTIALS[f][i](*args, f(*args)) * np.ones(3)
    np.testing.assert_allclose(
        slope, central(along(f, args, i), args[i]), rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize(("f", "i"), CASES)
def test_both_modes_apply_it(f, i):
    args = point_of(f)
    g, slope = along(f, args, i), PARTIALS[f][i](*args, f(*args)) * np.ones(3)
    np.testing.assert_array_equal(forward_mode.derivative(g, args[i]), slope)
    np.testing.assert_array_equal(
        reverse_mode.vjp(g, args[i], np.ones(3)), slope
    )


@pytest.mark.parametrize(("f", "i"), CASES)
def test_a_rule_has_a_derivative_in_its_turn(f, i):
    args = point_of(f)

    def slope(x):
        return forward_mode.derivative(along(f, args, i), x)

    expected = central(slope, args[i])
    for second in (
        forward_mode.derivative(slope, args[i]),
        reverse_mode.vjp(slope, args[i], np.ones(3)),
        forward_mode.derivative(
            lambda x: reverse_mode.vjp(along(f, args, i), x, np.ones(3)),
            args[i],
        ),
    ):
        np.testing.assert_allclose(second, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("f", "i"), CASES)
def test_a_rule_takes_symbols(f, i):
    names = "ab"[: len(PARTIALS[f])]
    symbols = [Symbol(name) for name in names]
    values = dict(zip(names, point_of(f)))
    formula = PARTIALS[f][i](*symbols, f(*symbols))
    number = PARTIALS[f][i](*values.values(), f(*values.values()))
    np.testing.assert_allclose(evaluate(formula, **values), number, rtol=1e-14)


@pytest.mark.parametrize(("f", "i"), CASES)
def test_a_rule_keeps_float32(f, i):
    args = [a.astype(np.float32) for a in point_of(f)]
    g = along(f, [2] * len(args), i)  # the other argument a Python number
    x = args[i]
    assert forward_mode.derivative(g, x).dtype == np.float32
    assert forward_mode.derivative(g, x[0]).dtype == np.float32
    assert reverse_mode.vjp(g, x, np.ones(3)).dtype == np.float32
    assert reverse_mode.gradient(g, x[0]).dtype == np.float32


INF, NAN = np.inf, np.nan
CONVENTIONS = [
    # kinks: the mean of the slopes on both sides
    ("abs", abs, 0.0, 0.0),
    ("maximum, variable first", lambda x: np.maximum(x, 0), 0.0, 0.5),
    ("maximum, variable last", lambda x: np.maximum(0, x), 0.0, 0.5),
    ("minimum", lambda x: np.minimum(x, 2), 2.0, 0.5),
    ("clip at its edge", lambda x: np.clip(x, 0, 1), 1.0, 0.5),
    ("abs by maximum", lambda x: np.maximum(x, -x), 0.0, 0.0),
    (
        "kinks that cancel",
        lambda x: np.maximum(x, 0) - np.maximum(-x, 0),
        0.0,
        1.0,
    ),
    (
        "nested kinks: no convention helps",
        lambda x: np.maximum(np.maximum(x, 0), 0) - np.maximum(x, 0),
        0.0,
        -0.25,
    ),
    ("where has no kink", lambda x: np.where(x > 0, x, 0.0), 0.0, 0.0),
    # jumps
    ("sign", np.sign, 0.0, 0.0),
    ("floor", np.floor, 1.0, 0.0),
    # powers
    ("x**0 at 0", lambda x: x**0, 0.0, 0.0),
    ("x**0 at inf", lambda x: x**0, INF, 0.0),
    ("x**1 at 0", lambda x: x**1, 0.0, 1.0),
    ("x**3 below 0", lambda x: x**3, -2.0, 12.0),
    ("x**-1 at 0", lambda x: x**-1, 0.0, -INF),
    ("x**0.5 at 0", lambda x: x**0.5, 0.0, INF),
    ("x**0.5 below 0", lambda x: x**0.5, -1.0, NAN),
    ("0**x above 0", lambda x: 0**x, 2.0, 0.0),
    ("0**x at 0, a jump", lambda x: 0**x, 0.0, -INF),
    ("(-2)**x", lambda x: (-2) ** x, 3.0, NAN),
    # ends of the domain, infinities, NaN
    ("sqrt at 0", np.sqrt, 0.0, INF),
    ("log at 0", np.log, 0.0, INF),
    ("arcsin at 1", np.arcsin, 1.0, INF),
    ("1 / x at 0", lambda x: 1 / x, 0.0, -INF),
    ("log below 0", np.log, -1.0, -1.0),  # the value is NaN, the slope 1 / x
    ("hypot at (0, 0)", lambda x: np.hypot(x, 0), 0.0, NAN),
    ("exp at -inf", np.exp, -INF, 0.0),
    ("tanh at inf", np.tanh, INF, 0.0),
    ("NaN", lambda x: x * x, NAN, NAN),
    ("maximum with NaN", lambda x: np.maximum(x, NAN), 1.0, NAN),
]


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [case[1:] for case in CONVENTIONS],
    ids=[case[0] for case in CONVENTIONS],
)
def test_conventions(f, x, slope):
    with np.errstate(all="ignore"):
        np.testing.assert_equal(float(forward_mode.derivative(f, x)), slope)
        np.testing.assert_equal(float(reverse_mode.gradient(f, x)), slope)


def test_a_kink_has_the_slope_that_a_central_difference_has():
    for f in (abs, lambda x: np.maximum(x, 0), lambda x: np.minimum(3 * x, x)):
        assert forward_mode.derivative(f, 0.0) == central(f, 0.0)


def test_powers_with_arrays_of_exponents():
    exponents = np.array([0, 1, 2, 3])

    def f(x):
        return np.sum(x**exponents)

    np.testing.assert_array_equal(
        reverse_mode.gradient(f, np.zeros(4)), [0, 1, 0, 0]
    )
    np.testing.assert_array_equal(
        reverse_mode.gradient(f, np.full(4, -2.0)), [0, 1, -4, 12]
    )


def test_second_derivatives_of_powers_at_zero():
    for n, second in ((0, 0.0), (1, 0.0), (2, 2.0), (3, 0.0)):
        assert (
            forward_mode.derivative(
                lambda x, n=n: forward_mode.derivative(lambda y: y**n, x), 0.0
            )
            == second
        )


@pytest.mark.parametrize("b", [-1.0, 0.0, 1.0, 2.5])
def test_mixed_second_derivatives_of_powers(b):
    # a**(b - 1) * (1 + b * log(a)); an exponent of 0 is not a constant 1.
    expected = 2 ** (b - 1) * (1 + b * np.log(2))
    by_b = reverse_mode.gradient(
        lambda b: reverse_mode.gradient(lambda a: a**b, 2.0), b
    )
    by_a = reverse_mode.gradient(
        lambda a: reverse_mode.gradient(lambda b: a**b, b), 2.0
    )
    assert by_b == pytest.approx(expected, rel=1e-14)
    assert by_a == pytest.approx(expected, rel=1e-14)


def test_warnings_are_numpys_own():
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        forward_mode.derivative(np.sqrt, 0.0)


def test_a_rule_that_is_added_is_known_to_every_engine(monkeypatch):
    x = Symbol("x")
    rules = (lambda a, b, y: 1.0, lambda a, b, y: -np.floor(a / b))
    monkeypatch.setitem(PARTIALS, np.fmod, rules)
    assert forward_mode.jvp(np.fmod, (7.0, 2.0), (0, 1)) == -3
    assert reverse_mode.gradient(np.fmod, 7.0, 2.0) == (1, -3)
    assert evaluate(differentiate(np.fmod(x, 2.0), x), x=7.0) == 1
