"""Forward mode, reverse mode and symbols read the same rules: do they agree?

And do they agree with SymPy, with TensorFlow, with central differences and with
the laws of differentiation, on programs that nobody chose?
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
import tensorflow as tf
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from utils import forward_mode, reverse_mode
from utils.forward_mode import derivative, jvp
from utils.reverse_mode import gradient, trace, vjp
from utils.symbolic import Symbol, differentiate, evaluate

EPS = np.finfo(float).eps
often = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)

# A program is a list of steps (operation, operand, ...); an operand is a constant
# or the place of an earlier value, x and y being 0 and 1. So values are used
# again, as in real programs. NumPy, SymPy and TensorFlow each run it.

UNARY = ["sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "sinh", "cosh"]
UNARY += ["arctan", "arcsinh", "abs", "expm1", "log1p", "square", "negative"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
NUMPY = {name: getattr(np, name) for name in [*UNARY, *BINARY, "power"]}
TENSORFLOW = {
    name: getattr(tf.math, name.replace("arc", "a").replace("power", "pow"))
    for name in NUMPY
}
SYMPY = {name: getattr(sympy, name) for name in UNARY[:9]} | {
    "arctan": sympy.atan,
    "arcsinh": sympy.asinh,
    "abs": sympy.Abs,
    "expm1": lambda a: sympy.exp(a) - 1,
    "log1p": lambda a: sympy.log(1 + a),
    "square": lambda a: a**2,
    "negative": lambda a: -a,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": sympy.Max,
    "minimum": sympy.Min,
    "power": lambda a, b: a**b,
}

constants = st.integers(-12, 12).map(lambda k: k / 4)
exponents = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 0.5, 1.5])
coordinates = st.floats(-2, 2).map(lambda x: round(x, 3))
points = st.tuples(coordinates, coordinates)


@st.composite
def programs(draw, most=9):
    steps = []
    for last in range(1, draw(st.integers(3, most + 1))):
        earlier = st.integers(0, last)
        kind = draw(st.sampled_from(["unary", "binary", "binary", "power"]))
        if kind == "unary":
            steps.append((draw(st.sampled_from(UNARY)), last))
        elif kind == "binary":
            operands = draw(st.permutations([last, draw(earlier | constants)]))
            steps.append((draw(st.sampled_from(BINARY)), *operands))
        else:
            base = st.tuples(st.just(last), exponents | earlier)
            exponent = st.tuples(constants.map(abs), st.just(last))
            steps.append(("power", *draw(base | exponent)))
    return steps


def run(program, operations, x, y, constant=float):
    values = [x, y]
    for name, *operands in program:
        found = (values[k] if type(k) is int else constant(k) for k in operands)
        values.append(operations[name](*found))
    return values[-1]


def function_of(program):
    return lambda x, y: run(program, NUMPY, x, y)


def tame(f, *point):
    """Skip what leaves its domain, grows large or comes near a kink, and return
    how far rounding may carry two computations of a derivative apart."""
    with np.errstate(all="ignore"):
        try:
            rows = trace(f, point, np.ones(np.shape(f(*point))))
        except ValueError:  # the result depends on neither argument
            assume(False)
    size = slope = 1.0
    for row in rows:
        if row.function in (np.maximum, np.minimum, np.absolute):
            gap = row.values[0] - (row.values[1] if row.values[1:] else 0)
            assume(np.all(np.abs(gap) > 0.01))
        if row.function is np.power:  # 0 as a base: see test_rules
            assume(np.all(row.values[0] != 0))
        adjoint = 0.0 if row.adjoint is None else row.adjoint
        assume(np.all(np.isfinite(row.value) & np.isfinite(adjoint)))
        size = max(size, np.max(np.abs(row.value)))
        slope = max(slope, np.max(np.abs(adjoint)))
    assume(size < 1000 / slope)
    return EPS * len(rows) * size**2 * slope


def close(a, b, bound):
    assert np.shape(a) == np.shape(b)
    assert np.max(np.abs(np.subtract(a, b))) <= bound


@often
@given(programs(), points)
def test_forward_mode_is_reverse_mode(program, point):
    f = function_of(program)
    bound = tame(f, *point)
    gx, gy = gradient(f, *point)
    close(jvp(f, point, (1, 0)), gx, bound)
    close(jvp(f, point, (0, 1)), gy, bound)


@often
@given(programs(), points)
def test_formulas_are_reverse_mode(program, point):
    f = function_of(program)
    bound = tame(f, *point)
    x, y = Symbol("x"), Symbol("y")
    values = dict(zip("xy", point))
    formula = f(x, y)
    for symbol, g in zip((x, y), gradient(f, *point)):
        close(evaluate(differentiate(formula, symbol), **values), g, bound)
    # Reverse mode on symbols makes formulas, too.
    by_reverse = gradient(f, x, y)
    for formula, g in zip(by_reverse, gradient(f, *point)):
        close(evaluate(formula, **values), g, bound)


@settings(often, max_examples=40)
@given(programs(most=5), points)
def test_sympy(program, point):
    f = function_of(program)
    bound = tame(f, *point)
    symbols = sympy.symbols("x y", real=True)
    formula = run(program, SYMPY, *symbols, sympy.Rational)
    at = dict(zip(symbols, map(sympy.Rational, point)))
    for symbol, g in zip(symbols, gradient(f, *point)):
        exact = sympy.diff(formula, symbol).subs(at).evalf(30)
        assume(exact.is_finite)  # SymPy writes x**y * y / x, say, at x = 0
        close(float(exact), g, bound)


@often
@given(programs(), points)
def test_tensorflow(program, point):
    f = function_of(program)
    bound = tame(f, *point)
    with tf.GradientTape() as tape:
        xy = [tf.Variable(a, dtype=tf.float64) for a in point]
        z = run(program, TENSORFLOW, *xy, lambda c: tf.constant(c, tf.float64))
    theirs = tape.gradient(z, xy, unconnected_gradients="zero")
    for g, h in zip(gradient(f, *point), theirs):
        close(g, h.numpy(), bound)


@often
@given(programs(most=6), points)
def test_central_differences(program, point):
    f = function_of(program)
    bound = tame(f, *point)
    h = 2.0**-17

    def g(t):
        return f(point[0] + t, point[1] + t)

    def third(t):
        return derivative(
            lambda t: derivative(lambda t: derivative(g, t), t), t
        )

    truncation = h**2 / 6 * max(abs(third(t)) for t in (-h, 0.0, h))
    assume(
        truncation < 1e-3
    )  # else the third derivative is not steady over 2 h
    central = (g(h) - g(-h)) / (2 * h)
    close(central, derivative(g, 0.0), 1.5 * truncation + bound / h)


@often
@given(programs(most=7), points)
def test_second_derivatives_in_every_nesting(program, point):
    f, v = function_of(program), (0.6, -0.8)

    def slope(x, y):
        return jvp(f, (x, y), v)

    def slopes(x, y):
        return np.stack(gradient(f, x, y))

    tame(f, *point)
    bound = tame(slope, *point)
    reverse_over_forward = np.stack(gradient(slope, *point))
    close(jvp(slopes, point, v), reverse_over_forward, bound)
    close(np.stack(vjp(slopes, point, v)), reverse_over_forward, bound)


@often
@given(programs(most=6), programs(most=6), points)
def test_sums_and_products(program, other, point):
    f, g = function_of(program), function_of(other)

    def total(x, y):
        return 2 * f(x, y) - 3 * g(x, y)

    def product(x, y):
        return f(x, y) * g(x, y)

    bound = max(tame(h, *point) for h in (f, g, total, product))
    df, dg = np.array(gradient(f, *point)), np.array(gradient(g, *point))
    close(gradient(total, *point), 2 * df - 3 * dg, bound)
    dfg = f(*point) * dg + g(*point) * df
    close(gradient(product, *point), dfg, bound)


@often
@given(programs(most=4), programs(most=4), points)
def test_chain_rule(program, other, point):
    inner, outer = function_of(program), function_of(other)

    def g(t):
        return outer(t, t)

    def composed(x, y):
        return g(inner(x, y))

    bound = tame(composed, *point)
    slope = gradient(g, inner(*point))
    expected = slope * np.array(gradient(inner, *point))
    close(gradient(composed, *point), expected, bound)


shapes = st.sampled_from([(), (3,), (2, 1), (2, 3)])


@often
@given(programs(most=6), shapes, shapes, st.integers(0, 999))
def test_jvp_and_vjp_are_transposes(program, shape_x, shape_y, seed):
    random = np.random.default_rng(seed)
    x, v = random.uniform(-2, 2, (2, *shape_x))
    y, w = random.uniform(-2, 2, (2, *shape_y))
    f = function_of(program)
    bound = tame(f, x, y)
    tangent = jvp(f, (x, y), (v, w))
    u = random.uniform(-2, 2, tangent.shape)
    gx, gy = vjp(f, (x, y), u)
    assert (gx.shape, gy.shape) == (shape_x, shape_y)
    close(np.sum(u * tangent), np.sum(gx * v) + np.sum(gy * w), 10 * bound)


# Each array function, in both modes, against central differences; then the sine
# of it, differentiated twice.

random = np.random.default_rng(1)
MATRIX, OTHER = random.normal(size=(2, 3, 4))
VECTOR, STACK = MATRIX[0], random.normal(size=(2, 3, 4))
ARRAYS = {
    "matrix @ matrix": (lambda a, b: a @ b.T, MATRIX, OTHER),
    "matrix @ vector": (lambda a, b: a @ b, MATRIX, VECTOR),
    "vector @ matrix": (lambda a, b: b @ a.T, MATRIX, VECTOR),
    "vector @ vector": (lambda a, b: a @ b, VECTOR, OTHER[1]),
    "stack @ matrix": (lambda a, b: a @ b.T, STACK, MATRIX),
    "stack @ vector": (lambda a, b: a @ b, STACK, VECTOR),
    "vector @ stack": (lambda a, b: a @ b, MATRIX[:, 0], STACK),
    "stack @ stack": (lambda a: a @ np.swapaxes(a, 1, -1), STACK),
    "stack @ stack of one": (
        lambda a, b: a @ b,
        *(STACK, np.swapaxes(STACK[:1], 1, 2)),
    ),
    "number @ matrix": (lambda a: np.ones((2, 3)) @ a, MATRIX),
    "dot": (lambda a, b: np.dot(a, b), MATRIX, VECTOR),
    "dot with a number": (lambda a, b: np.dot(a, b), MATRIX, VECTOR[0]),
    "outer": (lambda a, b: np.outer(a, b), VECTOR, MATRIX),
    "broadcasting": (lambda a, b: a * b + a / b, MATRIX, VECTOR),
    "sum": (lambda a: np.sum(a), STACK),
    "sum over an axis": (lambda a: a.sum(1) * a[:, 0], STACK),
    "sum over axes": (lambda a: a.sum(axis=(0, -1), keepdims=True), STACK),
    "mean": (lambda a: np.mean(a, axis=-2), STACK),
    "max": (lambda a: np.max(a, axis=1), MATRIX),
    "min": (lambda a: a.min() * a, MATRIX),
    "index": (lambda a: a[1] * a[-1, 2], MATRIX),
    "slices": (lambda a: a[1:, ::-2], MATRIX),
    "repeated indices": (lambda a: a[[0, 0, 2], 1], MATRIX),
    "mask": (lambda a: a[MATRIX > 0], MATRIX),
    "new axis": (lambda a: a[None, ..., 1], MATRIX),
    "iteration": (lambda a: sum(row * row[0] for row in a), MATRIX),
    "reshape": (lambda a: a.reshape(2, 6) * np.arange(6), MATRIX),
    "ravel, squeeze": (lambda a: np.ravel(a)[0] * np.squeeze(a[:1]), MATRIX),
    "transpose": (lambda a: np.transpose(a, (2, 0, -2)), STACK),
    "transpose, the method": (
        lambda a: a.transpose(2, 0, 1) * a.transpose((2, 0, 1)) + a.transpose(),
        STACK[:, :2, :2],
    ),
    "broadcast_to": (lambda a: np.broadcast_to(a, (3, 4)) * MATRIX, VECTOR),
    "concatenate": (
        lambda a, b: np.concatenate([a, 2 * b[:1], np.ones((2, 4))], axis=-2),
        *(MATRIX, OTHER),
    ),
    "stack": (lambda a, b: np.stack([a, b, a * b], axis=-1), MATRIX, OTHER),
    "where": (lambda a, b: np.where(MATRIX > 0, a, b), MATRIX, VECTOR),
    "where with a constant": (lambda a: np.where(a > 0, a, 0.0), MATRIX),
    "clip": (lambda a: np.clip(a, -0.5, None) * np.clip(a, -9, 0.5), MATRIX),
    "list as operand": (lambda a: [1, 2, 3, 4] * a + a**[2, 2, 2, 0], MATRIX),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name):
    f, *args = ARRAYS[name]
    for i, x in enumerate(args):

        def g(a, i=i):
            return f(*args[:i], a, *args[i + 1 :])

        by_columns = forward_mode.jacobian(g, x)
        by_rows = reverse_mode.jacobian(g, x)
        basis = np.eye(x.size).reshape(-1, *x.shape)
        central = [(g(x + 1e-6 * e) - g(x - 1e-6 * e)) / 2e-6 for e in basis]
        central = np.reshape(np.stack(central, -1), np.shape(g(x)) + x.shape)
        np.testing.assert_allclose(by_columns, by_rows, atol=1e-14)
        np.testing.assert_allclose(by_columns, central, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_twice(name):
    f, x, *rest = ARRAYS[name]
    v = np.random.default_rng(2).normal(size=x.shape)

    def g(a):
        return np.sum(np.sin(f(a, *rest)))

    forward_over_reverse = jvp(lambda a: gradient(g, a), x, v)
    reverse_over_reverse = vjp(lambda a: gradient(g, a), x, v)
    reverse_over_forward = gradient(lambda a: jvp(g, a, v), x)
    forward_over_forward = jvp(lambda a: forward_mode.jacobian(g, a), x, v)
    for other in (
        reverse_over_reverse,
        reverse_over_forward,
        forward_over_forward,
    ):
        np.testing.assert_allclose(forward_over_reverse, other, atol=1e-12)


def test_a_network_in_tensorflow():
    x, labels = random.normal(size=(8, 5)), np.eye(3)[[0, 1, 2, 2, 1, 0, 0, 1]]
    weights = [random.normal(size=s) for s in ((5, 4), (4,), (4, 3), (3,))]

    def loss(w1, b1, w2, b2):
        z = np.maximum(x @ w1 + b1, 0) @ w2 + b2
        z = z - np.max(z, axis=1, keepdims=True)
        log_sum = np.log(np.sum(np.exp(z), axis=1))
        return np.mean(log_sum - np.sum(labels * z, axis=1))

    variables = [tf.Variable(w) for w in weights]
    with tf.GradientTape() as tape:
        w1, b1, w2, b2 = variables
        z = tf.nn.relu(x @ w1 + b1) @ w2 + b2
        entropy = tf.nn.softmax_cross_entropy_with_logits(labels, z)
        theirs = tf.reduce_mean(entropy)
    assert loss(*weights) == pytest.approx(theirs.numpy(), rel=1e-14)
    expected = tape.gradient(theirs, variables)
    for g, h in zip(gradient(loss, *weights), expected):
        np.testing.assert_allclose(g, h.numpy(), atol=1e-15)


def test_the_traces_of_both_modes_list_the_same_steps():
    def f(x, y):
        return np.sin(x) - y**3

    forward = forward_mode.trace(f, (3.0, 5.0), (1.0, 0.0))
    reverse = reverse_mode.trace(f, (3.0, 5.0))
    for a, b in zip(forward, reverse, strict=True):
        assert (a.name, a.expression) == (b.name, b.expression)
        assert a.value == b.value
    # The tangent of the result and the adjoint of x are the same derivative.
    assert forward[-1].tangent == reverse[0].adjoint


# Formulas


def test_a_formula_reads_as_in_school():
    x, y = Symbol("x"), Symbol("y")
    f = np.sin(x) - y**3
    assert str(f) == "sin(x) - y ** 3"
    assert str(differentiate(f, x)) == "cos(x)"
    assert str(differentiate(f, y)) == "-(3 * y ** 2)"
    assert differentiate(f, Symbol("z")) == 0
    assert differentiate(x, x) == 1
    assert evaluate(differentiate(y**3, y), y=5.0) == 75


def test_zeros_and_ones_stay_out_of_sight():
    x = Symbol("x")
    for f in (x + 0, 0 + x, x - 0, 1 * x, x * 1, x / 1, x**1):
        assert f is x
    assert (x * 0, 0 / x, x**0) == (0, 0, 1)
    assert (str(0 - x), str(x * -1), str(-(0 - x))) == ("-x", "-x", "-(-x)")


def test_what_a_formula_shares_is_differentiated_once():
    a = x = Symbol("x")
    for _ in range(60):
        a = a + a
    assert differentiate(a, x) == 2.0**60
    assert evaluate(a, x=1.0) == 2.0**60


def test_duals_and_variables_may_carry_formulas():
    x = Symbol("x")
    assert str(derivative(lambda t: t * np.sin(t), x)) == "sin(x) + cos(x) * x"
    assert str(gradient(lambda t: t * np.sin(t), x)) == "sin(x) + x * cos(x)"


def test_formulas_are_evaluated_for_arrays():
    x = Symbol("x")
    points = np.linspace(0, 1, 5)
    np.testing.assert_array_equal(
        evaluate(differentiate(np.sin(x), x), x=points), np.cos(points)
    )
    assert evaluate(3.0) == 3.0
