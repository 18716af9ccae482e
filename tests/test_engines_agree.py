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
        adjoint = 0.0 if row.adjoint is None else row.adjoint
        assume(np.all(np.isfinite(row.value) & np.isfinite(adjoint)))
        size = max(size, np.max(np.abs(row.value)))
        slope = max(slope, np.max(np.abs(adjoint)))
    assume(size * slope < 1000)
    return EPS * len(rows) * size**2 * slope

import collections
WORST = {}; N=collections.Counter()
def close(a, b, bound, name=None, what=None):
    a,b=np.asarray(a),np.asarray(b)
    assert a.shape==b.shape
    import sys
    name=sys._getframe(1).f_code.co_name; N[name]+=1
    err=np.max(abs(a-b))
    r = err/bound
    if not r <= WORST.get(name,(0,))[0]: WORST[name]=(r,err,bound,{k:v for k,v in sys._getframe(1).f_locals.items() if k in('program','point','x','y','a','b','other')},a,b)


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
    values = dict(zip("xy", map(np.float64, point)))
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
        return derivative(lambda t: derivative(lambda t: derivative(g, t), t), t)

    truncation = h**2 / 6 * max(abs(third(t)) for t in (-h, 0.0, h))
    assume(truncation < 1e-3)  # else the third derivative is not steady over 2 h
    central = (g(h) - g(-h)) / (2 * h)
    close(central, derivative(g, 0.0), 1.5 * truncation + bound / h)


@often
@given(programs(most=7), points)
def test_second_derivatives_in_every_nesting(program, point):
    f = function_of(program)
    bound = tame(f, *point)
    v = (0.6, -0.8)
    
    def slope(x, y):
        return jvp(f, (x, y), v)

    bound2 = tame(slope, *point)
    reverse_over_forward = gradient(slope, *point)
    forward_over_reverse = [jvp(lambda x, y, i=i: gradient(f, x, y)[i], point, v) for i in (0, 1)]
    reverse_over_reverse = vjp(lambda x, y: np.stack(gradient(f, x, y)), point, v)
    for a, b, c in zip(reverse_over_forward, forward_over_reverse, reverse_over_reverse):
        close(a, b, bound2)
        close(a, c, bound2)


@often
@given(programs(most=6), programs(most=6), points)
def test_laws(program, other, point):
    f, g = function_of(program), function_of(other)
    fg = lambda x,y: f(x,y)*g(x,y)
    bound = max(tame(f, *point), tame(g, *point), tame(fg,*point))
    df, dg = np.array(gradient(f, *point)), np.array(gradient(g, *point))
    a, b = f(*point), g(*point)
    close(gradient(lambda x, y: 2 * f(x, y) - 3 * g(x, y), *point), 2 * df - 3 * dg, 5*bound)
    close(gradient(fg, *point), a * dg + b * df, bound)
    

@often
@given(programs(most=4), programs(most=4), points)
def test_chain_rule(program, other, point):
    f, g = function_of(program), function_of(other)
    outer = lambda x: g(x,x)
    h = lambda x,y: outer(f(x,y))
    bound = tame(h, *point)
    tame(f,*point); tame(g, f(*point),f(*point))
    close(gradient(h, *point), gradient(outer, f(*point)) * np.array(gradient(f, *point)), bound)

SHAPES=[(), (3,), (2, 1), (2, 3)]
@often
@given(programs(most=6), st.sampled_from(SHAPES), st.sampled_from(SHAPES), st.integers(0, 999))
def test_jvp_and_vjp_are_transposes(program, shape_x, shape_y, seed):
    random = np.random.default_rng(seed)
    x, y, v, w = (random.uniform(-2, 2, shape) for shape in (shape_x, shape_y)*2)
    f = function_of(program)
    bound = tame(f, x, y)
    tangent = jvp(f, (x, y), (v, w))
    u = random.uniform(-2, 2, tangent.shape)
    at, bt = vjp(f, (x, y), u)
    assert at.shape == shape_x and bt.shape == shape_y
    close(np.sum(u * tangent), np.sum(at * v) + np.sum(bt * w), 50*bound)

def test_zz():
    for k,v in WORST.items(): print(k,N[k],v)
