"""Running a graph op by op gives what TensorFlow gives as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from utils.op_by_op import Run, array_of, has_slope

X = tf.constant([0.3, 0.7])
V = tf.Variable([2.0, 3.0])


@tf.custom_gradient
def softplus(x):
    e = tf.exp(x)
    return tf.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))


def branch(x):
    return tf.cond(x[0] > 0, lambda: softplus(x) * V, lambda: x)


def switch(x):
    index = tf.cast(10 * x[1], tf.int32)  # 7: the last branch
    return tf.switch_case(index, [lambda: x, lambda: x**2, lambda: x**3])


def loop(x):
    def body(i, a):
        return i + 1, a * tf.sin(V * a)

    return tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]


FUNCTIONS = {
    "fan-out": lambda x: tf.sin(x) * x + x,
    "custom gradient": lambda x: softplus(2 * x),
    "branch": branch,
    "switch": switch,
    "loop": loop,
    "calls": tf.function(lambda x: tf.function(loop)(x) ** 2),
    "scan": lambda x: tf.scan(lambda a, b: a * b + 1.0, x),
    "map": lambda x: tf.map_fn(lambda a: softplus(a) * a, x),
    "vectorized map": lambda x: tf.vectorized_map(lambda a: a * a, x),
    "repeated rows": lambda x: tf.gather(x, [0, 0, 1]) ** 2,
    "python": lambda x: tf.py_function(tf.sin, [x], tf.float32),
    "recomputed": lambda x: tf.recompute_grad(tf.sin)(x),
    "matrices": lambda x: tf.linalg.inv(tf.linalg.diag(x) + 1.0),
    "compiled": tf.function(lambda x: tf.reduce_sum(x**3), jit_compile=True),
    "complex": lambda x: tf.abs(tf.complex(x, 2 * x)) ** 2,
    "half precision": lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32),
    "another dtype": lambda x: tf.cast(x, tf.float64) ** 2,
    "two results": lambda x: (x**2, tf.sin(x)),
}


def run_through(f, x):
    traced = tf.function(f, autograph=False)
    graph = traced.get_concrete_function(tf.TensorSpec(x.shape, x.dtype)).graph
    run = Run({"x": x, "V": V.handle})
    results = run.forward(graph, [run.roots["x"]])
    run.backward(results)
    return run, results


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_and_gradients_are_those_of_tensorflow(name):
    f = FUNCTIONS[name]
    run, results = run_through(f, X)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = f(X)
    for result, expected in zip(results, tf.nest.flatten(y), strict=True):
        np.testing.assert_allclose(result.tensor, expected, rtol=1e-6)
    claims = tape.gradient(y, [X, V])
    for root, claim in zip(run.roots.values(), claims, strict=True):
        if claim is None:
            assert root.adjoint is None
        else:
            claim = tf.convert_to_tensor(claim)
            np.testing.assert_allclose(root.adjoint, claim, rtol=1e-5)


def test_each_contribution_is_seen():
    run, _ = run_through(lambda x: x * tf.sin(x), X)
    parts = {use.step.op.type: use.part for use in run.roots["x"].uses}
    np.testing.assert_allclose(parts["Mul"], np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(parts["Sin"], X * np.cos(X), rtol=1e-6)


def test_a_step_without_an_adjoint_is_not_live():
    run, _ = run_through(lambda x: tf.round(tf.sin(x)), X)
    (use,) = run.roots["x"].uses
    assert use.step.op.type == "Sin" and not use.live
    assert use.part is not None, "Sin itself would let a gradient through"
    assert run.roots["x"].adjoint is None


def test_rounds_of_a_loop_are_steps():
    run, _ = run_through(loop, X)
    types = [step.op.type for step in run.steps]
    assert types.count("Sin") == 3


def test_an_assigned_variable_keeps_all_of_its_readings():
    w = tf.Variable(1.0)

    def f(x):
        first = w * w
        w.assign(x)
        return first + w * w

    graph = tf.function(f).get_concrete_function(tf.TensorSpec([])).graph
    run = Run({"x": tf.constant(5.0), "w": w.handle})
    run.backward(run.forward(graph, [run.roots["x"]]))
    assert run.roots["w"].adjoint == 12.0
    assert run.roots["x"].adjoint is None


def test_one_tensor_given_twice_is_two_inputs():
    f = tf.function(lambda a, b: a * tf.stop_gradient(b), autograph=False)
    graph = f.get_concrete_function(*2 * [tf.TensorSpec([2])]).graph
    run = Run({"a": X, "b": X})
    run.backward(run.forward(graph, [*run.roots.values()]))
    np.testing.assert_allclose(run.roots["a"].adjoint, X)
    assert run.roots["b"].adjoint is None


def test_refuses_to_run_forever():
    graph = tf.function(loop).get_concrete_function(tf.TensorSpec([2])).graph
    run = Run({"x": X, "V": V.handle}, most=20)
    with pytest.raises(RuntimeError, match="more than 20 ops"):
        run.forward(graph, [run.roots["x"]])


def test_arrays_are_of_floating_or_complex_numbers():
    assert array_of(None) is None and array_of(tf.constant(3)) is None
    half = tf.constant(1.5, tf.bfloat16)
    assert array_of(half).dtype == np.float32 and array_of(half) == 1.5
    assert has_slope(half) and not has_slope(tf.constant("a"))
