"""Forward mode, reverse mode and symbols read the same rules: do they agree?

And do they agree with SymPy, with TensorFlow, with central differences and with
the laws of differentiation, on expressions that nobody chose?
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
import tensorflow as tf
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from utils import forward_mode, reverse_mode
from utils.forward_mode import jvp
from utils.reverse_mode import gradient, trace, vjp
from utils.symbolic import Symbol, differentiate, evaluate

EPS = np.finfo(float).eps
often = settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.filter_too_much],
)

# A program is a list of steps (operation, operand, ...); an operand is the place
# of an earlier value, x and y being 0 and 1, or a constant. So values are used
# again, as in real programs. NumPy, SymPy and TensorFlow each run it.

UNARY = ["sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "arctan", "abs"]
UNARY += ["sinh", "cosh", "arcsinh", "expm1", "log1p", "square", "negative"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
NUMPY = {name: getattr(np, name) for name in [*UNARY, *BINARY, "power"]}
SYMPY = {
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
    "power": lambda a, b: a**b,
    "maximum": sympy.Max,
    "minimum": sympy.Min,
}
TENSORFLOW = {"arctan": tf.atan, "arcsinh": tf.asinh, "power": tf.pow}

constants = st.integers(-12, 12).map(lambda k: k / 4)
exponents = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 0.5, 1.5])


@st.composite
def programs(draw, least=3, most=10):
    steps = []
    for last in range(1, draw(st.integers(least, most))):
        earlier = st.integers(0, last)
        kind = draw(st.sampled_from("uubbbp"))
        if kind == "u":
            steps.append((draw(st.sampled_from(UNARY)), last))
        elif kind == "b":
            operands = [last, draw(earlier | constants)]
            operands = draw(st.permutations(operands))
            steps.append((draw(st.sampled_from(BINARY)), *operands))
        else:
            base, exponent = draw(
                st.tuples(st.just(last), exponents)
                | st.tuples(constants.map(abs), st.just(last))
                | st.tuples(st.just(last), earlier)
            )
            steps.append(("power", base, exponent))
    return steps


points = st.tuples(*[st.floats(-2, 2).map(lambda x: round(x, 3))] * 2)


def compute(program, operations, x, y, constant=float):
    values = [x, y]
    for name, *operands in program:
        values.append(
            operations[name](
                *(values[k] if type(k) is int else constant(k) for k in operands)
            )
        )
    return values[-1]


def function_of(program):
    return lambda x, y: compute(program, NUMPY, x, y)


def tame(f, point):
    """Skip what overflows, leaves the domain or sits at a kink; else say how far
    rounding may carry two computations of a derivative apart."""
    with np.errstate(all="ignore"):
        try:
            rows = trace(f, point)
        except ValueError:  # a constant
            return 0.0
    for row in rows:
        if row.adjoint is None:
            row.adjoint = 0.0
        if row.function in (np.maximum, np.minimum, np.absolute):
            gap = row.values[0] - (row.values[1] if row.values[1:] else 0)
            assume(abs(gap) > 1e-3)
    size = max(1, *(abs(row.value) for row in rows))
    slope = max(1, *(abs(row.adjoint) for row in rows))
    assume(np.isfinite(size) and np.isfinite(slope) and size * slope < 1e3)
    return EPS * len(rows) * size**2 * slope


WORST = {}
def note(name, err, bound, what):
    r = err/bound if bound else (0 if err==0 else np.inf)
    if r > WORST.get(name,(0,))[0]: WORST[name]=(r,err,bound,what)

@often
@given(programs(), points)
def test_forward_is_reverse(tree, point):
    f = function_of(tree)
    bound = tame(f, point)
    g = gradient(f, *point)
    for i in range(2):
        d = jvp(f, point, (1 - i, i))
        note("fr", abs(d-g[i]), bound, (tree,point,d,g[i]))

@often
@given(programs(), points)
def test_symbols(tree, point):
    f = function_of(tree)
    bound = tame(f, point)
    g = gradient(f, *point)
    x,y=Symbol("x"),Symbol("y")
    F=f(x,y)
    for i,s in enumerate((x,y)):
        d = evaluate(differentiate(F,s),x=np.float64(point[0]),y=np.float64(point[1]))
        note("sym", abs(d-g[i]), bound, (tree,point,d,g[i]))

@settings(often,max_examples=60)
@given(programs(most=7), points)
def test_sympy(tree, point):
    f = function_of(tree)
    bound = tame(f, point)
    g = gradient(f, *point)
    x,y=sympy.symbols("x y",real=True)
    ops={n:getattr(sympy,n,None) for n in NUMPY}|SYMPY
    F=compute(tree,ops,x,y,sympy.Rational)
    for i,s in enumerate((x,y)):
        d=sympy.diff(F,s).subs({x:sympy.Rational(point[0]),y:sympy.Rational(point[1])}).evalf(30)
        d=float(d)
        note("sympy", abs(d-g[i]), bound, (tree,point,d,g[i]))

@often
@given(programs(), points)
def test_tf(tree, point):
    f = function_of(tree)
    bound = tame(f, point)
    g = gradient(f, *point)
    ops={n:getattr(tf.math,n,None) for n in NUMPY}|TENSORFLOW
    x,y=(tf.constant(p,tf.float64) for p in point)
    with tf.GradientTape() as tape:
        tape.watch([x,y]); z=compute(tree,ops,x,y,lambda c: tf.constant(c,tf.float64))
    t=tape.gradient(z,[x,y],unconnected_gradients="zero")
    for i in range(2):
        d=float(t[i])
        note("tf", abs(d-g[i]), bound, (tree,point,d,g[i]))

def test_zz():
    for k,v in WORST.items(): print(k,v)
