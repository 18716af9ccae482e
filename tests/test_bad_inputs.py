"""Bad input to a public function of utils gets one clear error.

The table is the test. A row is a call, the error that it gets, and words of its
message (a regular expression): which argument, what came, what is accepted.
"""

from __future__ import annotations

import importlib
import math
import pkgutil

import keras
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
import tensorflow as tf

import utils
from utils import (
    arguments,
    array_functions,
    checking,
    diagnose,
    explanation,
    figures,
    forward_mode,
    graphs,
    keras_layers,
    numerical,
    op_by_op,
    reverse_mode,
    rules,
    symbolic,
    tracing,
    two_expressions,
    wengert,
)
from utils.forward_mode import Dual
from utils.reverse_mode import Variable
from utils.symbolic import Symbol

X = np.array([1.0, 2.0, 3.0])
EMPTY = np.zeros((0, 2))
GRAPH = nx.MultiDiGraph([("a", "b")])
GRAPH.nodes["a"]["value"] = 1.0


def f2(x, y):
    return np.sin(x) - y**3


def nothing(x):
    return x[:0]


def written(x):
    x[0] = 1.0


def added(x):
    total = np.zeros(3)
    total += x


def growing():
    shapes = iter(range(1, 9))
    return lambda x: np.ones(next(shapes))


def cube(x):
    return x**3


def pair():
    return tf.constant([1.0, 2.0])


def of(shape):
    return tf.ones(shape)


def in_graph(call):
    """Call with sin(x) - y**3, x and y in a graph of TensorFlow."""
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [], name="x")
        y = tf.compat.v1.placeholder(tf.float32, [], name="y")
        z = tf.sin(x) - y**3
    return call(z, x, y)


def elsewhere():
    with tf.Graph().as_default():
        return tf.compat.v1.placeholder(tf.float32, [], name="elsewhere")


class Block(keras.layers.Layer):
    def call(self, x, noisy=True):
        return x if noisy else 2 * x


# What each public function refuses.
BAD = {
    # forward mode
    forward_mode.derivative: [
        (lambda f: f("sin", 1.0), TypeError, r"f is 'sin' \(str\); accepted is a function"),
        (lambda f: f(None, 1.0), TypeError, "f is None .*a function"),
        (lambda f: f(1.0, np.sin), TypeError, "x is <ufunc 'sin'>"),
        (lambda f: f(np.sin, np.arange(3)), TypeError, "x is .*int64.*accepted is a real"),
        (lambda f: f(np.sin, [1, 2]), TypeError, r"x is \[1, 2\]"),
        (lambda f: f(np.sin, True), TypeError, "x is True"),
        (lambda f: f(np.sin, 1j), TypeError, "x is 1j"),
        (lambda f: f(np.sin, X * 1j), TypeError, "x is an array of complex128"),
        (lambda f: f(np.sin, "3"), TypeError, "x is '3'"),
        (lambda f: f(f2, (3.0, 5.0)), TypeError, r"x is \(3.0, 5.0\)"),
        (lambda f: f(np.sin, EMPTY), ValueError, r"x is empty, of shape \(0, 2\)"),
        (lambda f: f(lambda x: (x, x), 1.0), TypeError, "f returned .*tuple.*np.stack"),
        (lambda f: f(lambda x: None, 1.0), TypeError, "f returned None"),
        (lambda f: f(lambda x: x * 1j, 1.0), TypeError, "f returned"),
        (lambda f: f(np.sum, X), ValueError, r"f made shape \(\) of x of shape \(3,\)"),
        (lambda f: f(math.sin, 1.0), TypeError, "of a Dual .*np.sin and not math.sin"),
        (lambda f: f(tf.sin, 1.0), TypeError, "made of a Dual .*not another library's"),
        (lambda f: f(np.sin, 1.0, step=1), TypeError, "unexpected keyword argument 'step'"),
    ],
    forward_mode.jvp: [
        (lambda f: f(3.0, X, X), TypeError, "f is 3.0 .*a function"),
        (lambda f: f(np.sin, X), TypeError, "missing .*'v'"),
        (lambda f: f(f2, (3.0, 1j), (1, 0)), TypeError, r"x\[1\] is 1j"),
        (lambda f: f(f2, (), ()), TypeError, "x is empty; at least one"),
        (lambda f: f(f2, (3.0,), (1,)), TypeError, "missing .*'y'"),
        (lambda f: f(np.sin, X, None), TypeError, "v is None .*accepted is a real"),
        (lambda f: f(np.sin, X, "123"), TypeError, "v is '123'"),
        (lambda f: f(np.sin, X, 1j * X), TypeError, "v is an array of complex128"),
        (lambda f: f(np.sin, X, X > 1), TypeError, "v is an array of bool"),
        (lambda f: f(np.sin, X, X[:2]), ValueError, r"v has shape \(2,\); accepted is \(3,\), that of x"),
        (lambda f: f(f2, (3.0, 5.0), 1.0), TypeError, "v is 1.0; accepted is a tuple of 2"),
        (lambda f: f(f2, (3.0, 5.0), (1, 0, 0)), TypeError, "accepted is a tuple of 2"),
        (lambda f: f(f2, (3.0, X), (1, X[:2])), ValueError, r"v\[1\] has shape .* that of x\[1\]"),
        (lambda f: f(nothing, X, X), ValueError, r"f returned an empty array, of shape \(0,\); accepted is one"),
    ],
    forward_mode.jacobian: [
        (lambda f: f("f", 3.0), TypeError, "f is 'f'"),
        (lambda f: f(f2), TypeError, "args is empty"),
        (lambda f: f(f2, 3.0, None), TypeError, r"args\[1\] is None"),
        (lambda f: f(np.sin, EMPTY), ValueError, r"args\[0\] is empty, of shape \(0, 2\)"),
        (lambda f: f(lambda x: np.ones(0), X), ValueError, "f returned an empty"),
    ],
    forward_mode.trace: [
        (lambda f: f(3, 1.0, 1.0), TypeError, "f is 3 .*a function"),
        (lambda f: f(np.sin, X, 1.0), ValueError, r"v has shape \(\); accepted is \(3,\)"),
        (lambda f: f(lambda x: 3.0, 1.0, 1.0), ValueError, "does not depend on its arguments"),
    ],
    Dual: [
        (lambda f: f("3"), TypeError, r"value is '3' \(str\)"),
        (lambda f: f(np.arange(2)), TypeError, "value is an array of int64"),
        (lambda f: f(EMPTY), ValueError, "value is empty"),
        (lambda f: f(1.0, "1"), TypeError, "tangent is '1'"),
        (lambda f: f(X, 1.0), ValueError, r"tangent has shape \(\); accepted is \(3,\), that of value"),
        (lambda f: f(1.0, tangnt=1.0), TypeError, "unexpected .*'tangnt'"),
    ],
    # reverse mode
    reverse_mode.gradient: [
        (lambda f: f("sin", 1.0), TypeError, "f is 'sin' .*a function"),
        (lambda f: f(np.sum), TypeError, "args is empty"),
        (lambda f: f(np.sum, np.arange(3)), TypeError, r"args\[0\] is an array of int64.*accepted is a real"),
        (lambda f: f(f2, 3.0, np.int32(5)), TypeError, r"args\[1\] is np.int32\(5\)"),
        (lambda f: f(np.sum, X * 1j), TypeError, r"args\[0\] is an array of complex128"),
        (lambda f: f(np.sum, (3.0, 5.0)), TypeError, r"args\[0\] is \(3.0, 5.0\)"),
        (lambda f: f(np.sum, EMPTY), ValueError, r"args\[0\] is empty"),
        (lambda f: f(np.sin, X), ValueError, r"f returned an array of shape \(3,\); gradient needs one number"),
        (lambda f: f(lambda x: [x, x], 1.0), TypeError, "f returned .*list.*np.stack"),
        (lambda f: f(lambda x: "x", 1.0), TypeError, "f returned 'x'"),
        (lambda f: f(lambda x: np.sum(x) * 1j, X), TypeError, "f returned"),
        # functions outside the rules
        (lambda f: f(np.linalg.det, np.eye(2)), TypeError, "np.linalg.det has no rule"),
        (lambda f: f(lambda x: np.sum(np.fmod(x, 2)), X), TypeError, "np.fmod has no rule"),
        (lambda f: f(lambda x: x % 2, 1.0), TypeError, "unsupported operand"),
        (lambda f: f(math.sin, 1.0), TypeError, "use NumPy's functions, np.sin and not math.sin"),
        (lambda f: f(tf.sin, 1.0), TypeError, "made of a Variable .*not another library's"),
        (lambda f: f(np.add.reduce, X), TypeError, "np.add.reduce has no rule"),
        (lambda f: f(lambda x: np.dot(x, x), np.ones((2, 2, 2))), TypeError, "np.dot of more than two"),
        (lambda f: f(lambda x: np.sin(x, where=X > 1), X), TypeError, "np.sin with where= has no rule"),
        (lambda f: f(lambda x: np.sum(x, dtype=float), X), TypeError, "takes no dtype=; accepted are a, axis"),
        (lambda f: f(lambda x: np.sum(x, axes=0), X), TypeError, "unexpected keyword argument 'axes'"),
        # writing into arrays
        (lambda f: f(written, X), TypeError, "entries of a Variable cannot be written"),
        (lambda f: f(added, X), TypeError, r"would write into an array \(out= or \+=\)"),
        (lambda f: f(lambda x: np.sin(x, out=np.ones(3)), X), TypeError, "would write into an array"),
        (lambda f: f(lambda x: np.array([x[0], x[1]]), X), TypeError, "would lose its derivative; .*np.stack"),
    ],
    reverse_mode.vjp: [
        (lambda f: f(3, X, X), TypeError, "f is 3 .*a function"),
        (lambda f: f(np.sin, X), TypeError, "missing .*'u'"),
        (lambda f: f(np.sin, [1], 1.0), TypeError, r"x is \[1\]"),
        (lambda f: f(np.sin, X, X[:2]), ValueError, r"u has shape \(2,\); accepted is \(3,\), that of the result"),
        (lambda f: f(np.sin, 1.0, 1j), TypeError, "u is 1j"),
        (lambda f: f(np.sin, 1.0, None), TypeError, "u is None"),
        (lambda f: f(np.sin, X, X > 1), TypeError, "u is an array of bool"),
        (lambda f: f(nothing, X, X[:0]), ValueError, "f returned an empty array"),
    ],
    reverse_mode.jacobian: [
        (lambda f: f(None, X), TypeError, "f is None .*a function"),
        (lambda f: f(np.sin), TypeError, "args is empty"),
        (lambda f: f(np.sin, EMPTY), ValueError, r"args\[0\] is empty"),
        (lambda f: f(lambda x: (x, x), X), TypeError, "f returned .*tuple.*np.stack"),
        (lambda f: f(nothing, X), ValueError, "f returned an empty array"),
    ],
    reverse_mode.trace: [
        (lambda f: f(3, 1.0), TypeError, "f is 3 .*a function"),
        (lambda f: f(np.sin, np.arange(3)), TypeError, "x is an array of int64"),
        (lambda f: f(np.sin, X), ValueError, r"u has shape \(\); accepted is \(3,\)"),
        (lambda f: f(lambda x: 3.0, 1.0), ValueError, "does not depend on its arguments"),
    ],
    Variable: [
        (lambda f: f("a"), TypeError, "value is 'a'"),
        (lambda f: f(np.arange(3)), TypeError, "value is an array of int64"),
        (lambda f: f(EMPTY), ValueError, "value is empty"),
        (lambda f: f(1.0, 2), TypeError, r"name is 2 \(int\); accepted is a text"),
    ],
    reverse_mode.sweep: [
        (lambda f: [*f(3.0)], TypeError, r"output is 3.0 \(float\); accepted is a Variable"),
        (lambda f: [*f(Dual(1.0) * 2)], TypeError, r"output is Dual\(2.0, 0.0\)"),
        (lambda f: [*f(Symbol("x"))], TypeError, r"output is x \(Symbol\)"),
        (lambda f: [*f(Variable(1.0), "1")], TypeError, "adjoint is '1' .*a real"),
        (lambda f: [*f(Variable(X), 1.0)], ValueError, r"adjoint has shape \(\); accepted is \(3,\), that of output"),
    ],
    # symbols
    Symbol: [
        (lambda f: f(3), TypeError, r"name is 3 \(int\); accepted is a text"),
        (lambda f: f(), TypeError, "missing .*'name'"),
        (lambda f: np.sum(f("x")), TypeError, "np.sum of a symbol has no rule"),
        (lambda f: np.fmod(f("x"), 2), TypeError, "np.fmod of a symbol has no rule"),
        (lambda f: f("x") < 1, TypeError, "x is a formula without a value"),
        (lambda f: float(f("x")), TypeError, "np.sin and not math.sin"),
        (lambda f: np.array([f("x")]), TypeError, "made of a Symbol"),
    ],
    symbolic.Expression: [
        (lambda f: f("x**2"), TypeError, "takes no arguments"),
        (lambda f: bool(-Symbol("x")), TypeError, "-x is a formula without a value; evaluate"),
    ],
    symbolic.differentiate: [
        (lambda f: f("x**2", Symbol("x")), TypeError, "f is 'x\\*\\*2' .*accepted is a formula or a number"),
        (lambda f: f(np.sin, Symbol("x")), TypeError, "f is <ufunc 'sin'>"),
        (lambda f: f(Variable(1.0), Symbol("x")), TypeError, r"f is Variable\(1.0\)"),
        (lambda f: f(Symbol("x"), "x"), TypeError, "x is 'x' .*accepted is a Symbol"),
        (lambda f: f(Symbol("x"), 2.0), TypeError, "x is 2.0"),
        (lambda f: f(Symbol("x"), -Symbol("x")), TypeError, "x is -x .*a Symbol"),
    ],
    symbolic.evaluate: [
        (lambda f: f(Symbol("x")), TypeError, "x has no value; given are none"),
        (lambda f: f(Symbol("x"), X=1.0), TypeError, "x has no value; given are X"),
        (lambda f: f(Symbol("x"), x="1"), TypeError, "x is '1' .*accepted is a number or array"),
        (lambda f: f(Symbol("x"), x=None), TypeError, "x is None"),
        (lambda f: f(Symbol("x"), x=[1.0]), TypeError, r"x is \[1.0\]"),
        (lambda f: f("x", x=1.0), TypeError, "f is 'x' .*a formula or a number"),
        (lambda f: f(cube, x=1.0), TypeError, "f is <function cube"),
    ],
    # difference quotients and the complex step
    numerical.derivative: [
        (lambda f: f("sin", 1.0), TypeError, "f is 'sin' .*a function"),
        (lambda f: f(1.0, np.sin), TypeError, "x is <ufunc 'sin'>"),
        (lambda f: f(np.sin, np.arange(3)), TypeError, "x is an array of int64"),
        (lambda f: f(np.sin, True), TypeError, "x is True"),
        (lambda f: f(np.sin, EMPTY), ValueError, "x is empty"),
        (lambda f: f(np.sum, X), ValueError, r"f returned shape \(\), not \(3,\); derivative needs"),
        (lambda f: f(lambda x: x + 0j, 1.0), TypeError, "dtype complex128; accepted are real"),
        (lambda f: f(lambda x: x > 0, 1.0), TypeError, "f returned True, dtype bool"),
        (lambda f: f(lambda x: "1", 1.0), TypeError, "f returned '1', dtype <U1"),
        (lambda f: f(np.sin, 1.0, method="centrall"), ValueError, r"method is 'centrall' \(did you mean 'central'\?\); accepted are forward, backward, central, richardson, complex"),
        (lambda f: f(np.sin, 1.0, method="centre"), ValueError, "did you mean 'central'"),
        (lambda f: f(np.sin, 1.0, method=5), ValueError, "method is 5; accepted are forward, backward, central"),
        (lambda f: f(np.sin, 1.0, step=0), ValueError, "step is 0; accepted are positive, finite"),
        (lambda f: f(np.sin, 1.0, step=np.nan), ValueError, "step is nan;"),
        (lambda f: f(np.sin, 1.0, step=np.inf), ValueError, "step is inf;"),
        (lambda f: f(np.sin, 1.0, step="h"), ValueError, "step is 'h';"),
        (lambda f: f(np.sin, 1.0, step=True), ValueError, "step is True;"),
        (lambda f: f(np.sin, 1.0, step=[]), ValueError, r"step is \[\];"),
        (lambda f: f(np.sin, X, step=X[:2]), ValueError, r"step has shape \(2,\); accepted is a number, or .* x, \(3,\)"),
        (lambda f: f(np.sin, 3.0, step=1e-16), ValueError, r"step is 1.e-16 and vanishes next to x = 3.; accepted in float64 are steps from 8.9e-16"),
        (lambda f: f(np.sin, 3.0, step=4.5e-16, method="richardson"), ValueError, "vanishes"),
        (lambda f: f(np.sin, np.float32(1), step=1e-200, method="complex"), ValueError, "vanishes"),
        (lambda f: f(np.sin, 1.0, h=1e-6), TypeError, "unexpected .*'h'"),
    ],
    numerical.gradient: [
        (lambda f: f(3.0, 1.0), TypeError, "f is 3.0 .*a function"),
        (lambda f: f(np.sin), TypeError, "args is empty; at least one"),
        (lambda f: f(np.sin, 1j), TypeError, r"args\[0\] is 1j"),
        (lambda f: f(f2, 3.0, "5"), TypeError, r"args\[1\] is '5'"),
        (lambda f: f(f2, 3.0), TypeError, "missing .*'y'"),
        (lambda f: f(np.sin, X), ValueError, r"f returned shape \(3,\), not \(\); gradient needs"),
        (lambda f: f(lambda x: None, 1.0), TypeError, "f returned None"),
        (lambda f: f(np.sin, 1.0, method="Central"), ValueError, "did you mean 'central'"),
        (lambda f: f(np.sin, 1.0, step=-0.1), ValueError, "step is -0.1;"),
        (lambda f: f(np.sum, X, step=[1, 1]), ValueError, r"step has shape \(2,\); accepted is a number"),
    ],
    numerical.jacobian: [
        (lambda f: f(3, X), TypeError, "f is 3 .*a function"),
        (lambda f: f(np.sin), TypeError, "args is empty"),
        (lambda f: f(np.sin, np.ones(0)), ValueError, r"args\[0\] is empty, of shape \(0,\)"),
        (lambda f: f(growing(), 1.0), ValueError, r"f returned shape \(2,\), not \(1,\); jacobian needs one shape"),
        (lambda f: f(nothing, X), ValueError, r"f returned an empty array, of shape \(0,\); accepted is one"),
        (lambda f: f(np.sin, 1.0, method="complex step"), ValueError, "did you mean 'complex'"),
        (lambda f: f(np.sin, X, step=X), ValueError, r"step has shape \(3,\)"),
    ],
    # checks
    checking.check_gradient: [
        (lambda f: f("sin", 1.0), TypeError, "f is 'sin' .*a function"),
        (lambda f: f(np.sin), TypeError, "args is empty"),
        (lambda f: f(np.sin, [1]), TypeError, r"args\[0\] is \[1\]"),
        (lambda f: f(tf.square, tf.constant([1, 2])), TypeError, r"args\[0\] is"),
        (lambda f: f(tf.square, tf.constant(1j)), TypeError, r"args\[0\] is"),
        (lambda f: f(np.sum, np.ones(0)), ValueError, r"args\[0\] is empty"),
        (lambda f: f(tf.sin, of([0])), ValueError, r"args\[0\] is empty"),
        (lambda f: f(lambda v: (v, v), tf.constant(1.0)), TypeError, "f returned a tuple"),
        (lambda f: f(lambda x: None, 1.0), TypeError, "f returned None"),
        (lambda f: f(lambda x: x + 1j, 1.0, gradient=np.cos), TypeError, "accepted are real numbers"),
        (lambda f: f(nothing, X), ValueError, "f returned an empty array"),
        (lambda f: f(growing(), 1.0, gradient=np.cos), ValueError, "a check needs one shape"),
        (lambda f: f(np.linalg.det, np.eye(2)), TypeError, "np.linalg.det has no rule"),
        (lambda f: f(np.sin, 1.0, gradient=0.54), TypeError, "gradient is 0.54 .*a function"),
        (lambda f: f(np.sin, 1.0, gradient=lambda x: None), TypeError, r"gradient\(\*args\) is None .*a real"),
        (lambda f: f(np.sin, 1.0, gradient=lambda x: 1j), TypeError, r"gradient\(\*args\) is 1j"),
        (lambda f: f(np.sin, X[:2], gradient=np.cos), ValueError, r"gradient returned shape \(2,\); accepted is \(2, 2\)"),
        (lambda f: f(f2, 1.0, 2.0, gradient=lambda x, y: 1.0), ValueError, r"gradient returned shape \(\); accepted is \(\(\), \(\)\)"),
        (lambda f: f(np.sin, 1.0, grad=np.cos), TypeError, "unexpected .*'grad'"),
        (lambda f: f(np.sin, 1.0, rtol="1"), TypeError, "rtol is '1' .*a number"),
        (lambda f: f(np.sin, 1.0, rtol=-1), ValueError, "rtol is -1; accepted are finite numbers from 0"),
        (lambda f: f(np.sin, 1.0, rtol=np.nan), ValueError, "rtol is nan"),
        (lambda f: f(np.sin, 1.0, rtol=np.inf), ValueError, "rtol is inf"),
    ],
    checking.dot_product_test: [
        (lambda f: f(3, 1.0), TypeError, "f is 3 .*a function"),
        (lambda f: f(np.sum), TypeError, "at least one"),
        (lambda f: f(np.sin, np.arange(3)), TypeError, r"args\[0\] is an array of int64"),
        (lambda f: f(np.sin, EMPTY), ValueError, r"args\[0\] is empty"),
        (lambda f: f(lambda x: None, 1.0), TypeError, "f returned None"),
        (lambda f: f(lambda x: None, pair()), TypeError, "f returned a NoneType; accepted is one tensor"),
        (lambda f: f(nothing, X), ValueError, "f returned an empty array"),
        (lambda f: f(np.sin, 1.0, seed="a"), TypeError, "expects int .* not a"),
        (lambda f: f(np.sin, 1.0, sed=1), TypeError, "unexpected .*'sed'"),
    ],
    checking.Report: [
        (lambda f: f("check"), TypeError, "missing .*'findings'"),
    ],
    checking.Finding: [
        (lambda f: f("differs", False), TypeError, "missing .*'text'"),
    ],
    # diagnosis
    diagnose.explain_gradient: [
        (lambda f: f(3, pair()), TypeError, r"f is 3 \(int\); accepted is a function"),
        (lambda f: f("sin", pair()), TypeError, "f is 'sin'"),
        (lambda f: f(tf.sin), ValueError, "f has no tensor among its inputs"),
        (lambda f: f(tf.sin, "1"), ValueError, "f has no tensor among its inputs"),
        (lambda f: f(tf.sin, []), ValueError, "f has no tensor among its inputs"),
        (lambda f: f(lambda: pair()), ValueError, r"f has no tensor .*variables=\[...\]"),
        (lambda f: f(lambda x: None, pair()), TypeError, "f returned None; accepted are"),
        (lambda f: f(lambda x: [], pair()), TypeError, r"f returned \[\]; accepted are"),
        (lambda f: f(tf.strings.as_string, pair()), TypeError, "f returned .*accepted are"),
        (lambda f: f(tf.sin, pair(), variables=tf.Variable([1.0])), TypeError, "variables is <tf.Variable .*a list of variables"),
        (lambda f: f(tf.sin, pair(), variables=["w"]), TypeError, r"variables is \['w'\]"),
        (lambda f: f(tf.sin, pair(), variables=None), TypeError, "variables is None"),
        (lambda f: f(tf.sin, pair(), variable=[]), TypeError, "unexpected .*'variable'"),
    ],
    explanation.Explanation: [
        (lambda f: f(()), TypeError, "missing .*'value'"),
        (lambda f: f((), None)["x"], KeyError, r"'x' is not among \[\]"),
        (lambda f: diagnose.explain_gradient(tf.sin, pair())["y"], KeyError, r"'y' is not among \['x'\]"),
        (lambda f: diagnose.explain_gradient(tf.sin, pair()).draw("y"), KeyError, r"'y' is not among \['x'\]"),
        (lambda f: diagnose.explain_gradient(lambda x: of([]), pair()).draw("x"), ValueError, "no path from 'x'"),
        (lambda f: diagnose.explain_gradient(tf.sin, pair()).draw("x", 3), TypeError, "ax is 3 .*axes"),
    ],
    explanation.Finding: [(lambda f: f("x"), TypeError, "missing .*'disease'")],
    explanation.Place: [(lambda f: f("cut", "Log"), TypeError, "missing .*'why'")],
    op_by_op.Run: [
        (lambda f: f({"x": 3.0}), TypeError, r"roots\['x'\] is 3.0 .*a tensor or handle"),
        (lambda f: f({"w": tf.Variable(1.0)}), TypeError, r"roots\['w'\] is <tf.Variable"),
    ],
    # one expression forward, another backward
    two_expressions.forward_backward: [
        (lambda f: f(pair()), TypeError, "missing .*'backward'"),
        (lambda f: f(pair(), of([1])), ValueError, r"shape \(2,\), backward .* shape \(1,\)"),
        (lambda f: f(pair(), of([])), ValueError, r"backward is .* shape \(\)"),
        (lambda f: f(pair(), tf.cast(pair(), tf.float64)), TypeError, "float32 .* float64"),
        (lambda f: f(tf.constant(1), tf.constant(2)), TypeError, "int32 .* int32"),
        (lambda f: f(tf.constant(True), pair()), TypeError, "bool"),
        (lambda f: f(pair(), np.ones(2, "f")), TypeError, "backward is a ndarray"),
        (lambda f: f(1.0, pair()), TypeError, r"forward is 1\.0 \(float\)"),
        (lambda f: f(pair(), None), TypeError, "backward is None"),
        (lambda f: f("x", pair()), TypeError, r"forward is 'x' \(str\)"),
        (lambda f: f([1.0, 2.0], pair()), TypeError, r"forward is \[1\.0, 2\.0\] \(list\)"),
        (lambda f: f(tf.sparse.from_dense(pair()), pair()), TypeError, "SparseTensor"),
        (lambda f: f(tf.ragged.constant([[1.0], []]), pair()), TypeError, "RaggedTensor"),
        (lambda f: f(tf.IndexedSlices(pair(), [0, 1]), pair()), TypeError, "IndexedSlices"),
        (lambda f: f(keras.Input((2,)), keras.Input((2,))), TypeError, "call of a layer"),
        (lambda f: f(tf.sin, pair()), TypeError, r"forward is <function"),
    ],
    keras_layers.ForwardBackward: [
        (lambda f: f(tf.tanh, {}, {}), TypeError, "as block; block is <function"),
        (lambda f: f(Block, {}, {}), TypeError, "as block; block is <class"),
        (lambda f: f(Block(), {}), TypeError, "missing .*'backward'"),
        (lambda f: f(Block(), True, {}), TypeError, "as forward; forward is True"),
        (lambda f: f(Block(), {}, ["noisy"]), TypeError, "as backward; backward is"),
        (lambda f: f(keras.layers.Dense(1), {"noisy": True}, {}), TypeError, r"keywords of forward; dense\w* \(Dense\) takes no 'noisy'"),
        (lambda f: f(Block(), {}, {"noise": False}), TypeError, r"keywords of backward; block\w* \(Block\) takes no 'noise'"),
        (lambda f: f(keras.Sequential([Block()]), {"noisy": True}, {}), TypeError, r"\(Sequential\) takes no 'noisy'"),
        (lambda f: f(Block(), {}, {}, nam="join"), ValueError, "Unrecognized .*'nam'"),
        (lambda f: f(Block(), {}, {})(3.0), ValueError, "Only input tensors .* 3.0"),
    ],
    # drawings
    graphs.draw: [
        (lambda f: f(None), TypeError, "graph is None; draw needs a networkx.MultiDiGraph"),
        (lambda f: f({"a": ["b"]}), TypeError, "networkx.MultiDiGraph"),
        (lambda f: f(nx.Graph([(1, 2)])), TypeError, "networkx.MultiDiGraph"),
        (lambda f: f(nx.DiGraph()), ValueError, "graph has no nodes"),
        (lambda f: f(nx.DiGraph([(1, 2), (2, 1)])), ValueError, "graph has a cycle"),
        (lambda f: f(GRAPH, plt.Figure()), TypeError, "ax is <Figure .*axes of matplotlib"),
        (lambda f: f(GRAPH, direction="up"), ValueError, "direction has 'up'.*'right'"),
        (lambda f: f(GRAPH, show="value"), TypeError, "show is 'value' .*a list, out of .*'adjoint'"),
        (lambda f: f(GRAPH, show=None), TypeError, "show is None"),
        (lambda f: f(GRAPH, show=["grad"]), ValueError, "show has 'grad'.*'adjoint'"),
        (lambda f: f(GRAPH, highlight="ab"), TypeError, "highlight is 'ab' .*a list"),
        (lambda f: f(GRAPH, highlight=["d"]), ValueError, "highlight has 'd'.*'b'"),
        (lambda f: f(GRAPH, highlight=[("b", "a")]), ValueError, r"highlight has \('b', 'a'"),
        (lambda f: f(GRAPH, step=2), ValueError, r"step has 2.*range\(0, 2\)"),
        (lambda f: f(GRAPH, step=-1), ValueError, "step has -1"),
        (lambda f: f(GRAPH, step=0.5), ValueError, "step has 0.5"),
    ],
    graphs.from_trace: [
        (lambda f: f(3), TypeError, r"nodes is 3 \(int\); accepted is what trace"),
        (lambda f: f([]), TypeError, r"nodes is \[\]"),
        (lambda f: f([3]), TypeError, r"nodes is \[3\]"),
        (lambda f: f(Variable(1.0)), TypeError, r"nodes is Variable\(1.0\)"),
        (lambda f: f([Symbol("x")]), TypeError, "x is a formula without a value"),
    ],
    graphs.from_tensorflow: [
        (lambda f: f(tf.constant(1.0)), TypeError, r"outputs\[0\] is .*get_concrete_func"),
        (lambda f: f(tf.Variable(1.0)), TypeError, r"outputs\[0\] is <tf.Variable"),
        (lambda f: f([]), TypeError, r"outputs\[0\] is None"),
        (lambda f: f(tf.sin), TypeError, r"outputs\[0\] is <function"),
        (lambda f: in_graph(lambda z, x, y: f(z, [x, 3.0])), TypeError, r"inputs\[1\] is 3.0"),
        (lambda f: in_graph(lambda z, x, y: f(z, gradients=[3.0])), TypeError, r"gradients\[0\] is 3.0"),
        (lambda f: in_graph(lambda z, x, y: f(z, elsewhere())), ValueError, "elsewhere:0.* in another graph"),
        (lambda f: in_graph(lambda z, x, y: f(x, [x, y])), ValueError, r"inputs\[1\] \(y\) does not"),
        (lambda f: in_graph(lambda z, x, y: f(z, [x, y], at=(3.0,))), ValueError, "at is .*a list of 2 values"),
        (lambda f: in_graph(lambda z, x, y: f(z, [x, y], at=3.0)), ValueError, "at is 3.0; .*a list of 2 values"),
        (lambda f: in_graph(lambda z, x, y: f(z, x, at=[3.0])), ValueError, "at has no value for y"),
    ],
    figures.use_style: [
        (lambda f: f("dark"), TypeError, "takes 0 positional arguments"),
    ],
    # what the engines share
    wengert.wengert_list: [
        (lambda f: f(3.0), TypeError, r"a node is 3.0 \(float\); accepted is what an engine"),
        (lambda f: f(Variable(1.0), [3.0]), TypeError, "a node is 3.0"),
    ],
    wengert.Node: [(lambda f: f("a"), TypeError, "takes no arguments")],
    tracing.Traced: [(lambda f: f("a"), TypeError, "takes no arguments")],
    tracing.apply: [
        (lambda f: f(np.fmod, Variable(1.0), 2.0), TypeError, "np.fmod has no rule .*f may use the functions that"),
    ],
    arguments.function: [
        (lambda f: f(3, "gradient"), TypeError, "gradient is 3 .*a function"),
    ],
    arguments.call: [
        (lambda f: f("f", 1.0), TypeError, "f is 'f' .*a function"),
        (lambda f: f(lambda x: None, 1.0), TypeError, "f returned None .*one real number"),
    ],
    arguments.real: [
        (lambda f: f(None, "x"), TypeError, "x is None .*a real floating-point"),
        (lambda f: f(np.array([None]), "x"), TypeError, r"x is array\(\[None\]"),
        (lambda f: f(EMPTY, "x"), ValueError, "x is empty"),
    ],
    arguments.several: [
        (lambda f: f((), "x"), TypeError, "x is empty; at least one"),
        (lambda f: f((1.0, "a"), "x"), TypeError, r"x\[1\] is 'a'"),
    ],
    arguments.alike: [
        (lambda f: f("a", X, "v", "x"), TypeError, "v is 'a' .*a real number"),
        (lambda f: f(1, X, "v", "x"), ValueError, r"v has shape \(\); accepted is \(3,\), that of x"),
    ],
    array_functions.unbroadcast: [
        (lambda f: f(X, (2,)), ValueError, r"size 3 into shape \(2,\)"),
    ],
    wengert.listed: [
        (lambda f: f([Variable(1.0)], 3.0), ValueError, "does not depend on its arguments"),
    ],
}  # fmt: skip

# No chapter calls these, but two, which take anything; utils calls the others
# with what it has checked.
WITHOUT_ROWS = {
    *(arguments.as_given, arguments.basis, arguments.refused),
    *(array_functions.kept_shape, rules.one, wengert.parameter_names),
    *(tracing.bare, tracing.getitem, tracing.new_level, tracing.no_rule),
    *(op_by_op.Step, op_by_op.Use, op_by_op.Value),
    *(op_by_op.array_of, op_by_op.has_slope),
}


def name_of(public) -> str:
    return f"{public.__module__.removeprefix('utils.')}.{public.__name__}"


ROWS = [
    pytest.param(public, *row, id=f"{name_of(public)}-{i}")
    for public, rows in BAD.items()
    for i, row in enumerate(rows)
]


@pytest.mark.parametrize(("public", "call", "error", "message"), ROWS)
def test_one_clear_error(public, call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(public)
    assert "\n" not in str(caught.value)
    assert not plt.get_fignums(), "a drawing that is refused leaves no figure"


def test_every_public_function_has_rows():
    found = set()
    for module in pkgutil.iter_modules(utils.__path__, "utils."):
        names = vars(importlib.import_module(module.name))
        public = (names[name] for name in names["__all__"])
        found |= {name_of(x) for x in public if callable(x)}
    tested = {name_of(x) for x in BAD}
    exempt = {name_of(x) for x in WITHOUT_ROWS}
    assert not tested & exempt
    missing = found - tested - exempt
    assert not missing, f"give them rows in BAD: {sorted(missing)}"
    gone = (tested | exempt) - found
    assert not gone, f"not public any more: {sorted(gone)}"
