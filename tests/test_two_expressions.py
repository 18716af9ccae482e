"""forward_backward: the value of one tensor, the derivatives of the other, in every mode."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from utils.two_expressions import forward_backward

EVERYTHING = {
    "eager": lambda f: f,
    "graph": tf.function,
    "xla": lambda f: tf.function(f, jit_compile=True),
}
modes = pytest.mark.parametrize("mode", EVERYTHING)


def join(x):
    """Value sin x, derivatives of x**3: 6.75, 9 and 6 at 1.5."""
    return forward_backward(tf.sin(x), x**3)


def bits(tensor):
    return tensor.numpy().view(f"u{tensor.dtype.size}")


@modes
@pytest.mark.parametrize(
    "dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64]
)
def test_value_has_the_bits_of_forward(mode, dtype):
    info = np.finfo(dtype.as_numpy_dtype) if dtype != tf.bfloat16 else None
    tiny = 2.0**-133 if info is None else float(info.smallest_subnormal)
    huge = 3e38 if info is None else float(info.max)
    magnitudes = np.geomspace(max(tiny, 1e-300), huge / 2, 40)
    values = [0.0, -0.0, tiny, -tiny, huge, -huge, np.inf, -np.inf, np.nan]
    forward = tf.constant([*values, *magnitudes, *-magnitudes], dtype)
    call = EVERYTHING[mode](forward_backward)
    for other in (0.0, -0.0, 1.0, 1e4, np.inf, np.nan):
        backward = tf.fill(forward.shape, tf.constant(other, dtype))
        np.testing.assert_array_equal(
            bits(call(forward, backward)), bits(forward)
        )
    np.testing.assert_array_equal(
        bits(call(forward, forward[::-1])), bits(forward)
    )


@modes
def test_first_and_second_derivative_inside(mode):
    def derivatives(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = join(x)
            first = inner.gradient(y, x)
        return y, first, outer.gradient(first, x)

    y, first, second = EVERYTHING[mode](derivatives)(tf.constant(1.5))
    assert y.numpy() == pytest.approx(np.sin(1.5))
    assert (float(first), float(second)) == (6.75, 9.0)


@modes
def test_third_derivative_with_the_tapes_outside(mode):
    x = tf.Variable(1.5)
    call = EVERYTHING[mode](join)
    with tf.GradientTape() as t3:
        with tf.GradientTape() as t2:
            with tf.GradientTape() as t1:
                y = call(x)
            d1 = t1.gradient(y, x)
        d2 = t2.gradient(d1, x)
    assert (float(d1), float(d2), float(t3.gradient(d2, x))) == (6.75, 9.0, 6.0)


def test_graph_of_tensorflow_1():
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [])
        y = join(x)
        first = tf.gradients(y, x)[0]
        second = tf.gradients(first, x)[0]
        with tf.compat.v1.Session() as session:
            values = session.run([y, first, second], {x: 1.5})
    assert values == [np.float32(np.sin(np.float32(1.5))), 6.75, 9.0]


def test_tf_gradients_inside_a_function():
    gradients = tf.function(lambda x: tf.gradients(join(x), x)[0])
    assert float(gradients(tf.constant(1.5))) == 6.75


@modes
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_forward_mode(mode, where):
    def tangent(f):
        x = tf.constant(1.5)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    wrap = EVERYTHING[mode]
    if where == "outside":
        assert float(tangent(wrap(join))) == 6.75
    else:
        assert float(wrap(lambda: tangent(join))()) == 6.75


@modes
def test_forward_over_reverse(mode):
    def second(x):
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = join(x)
            first = tape.gradient(y, x)
        return accumulator.jvp(first)

    assert float(EVERYTHING[mode](second)(tf.constant(1.5))) == 9.0


@modes
def test_finite_where_backward_is_not(mode):
    def value_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = forward_backward(tf.tanh(x), tf.exp(x))
        return y, tape.gradient(y, x)

    y, gradient = EVERYTHING[mode](value_and_gradient)(
        tf.constant([1000.0, 0.0])
    )
    np.testing.assert_array_equal(y, [1.0, 0.0])
    np.testing.assert_array_equal(gradient, [np.inf, 1.0])


def test_what_reaches_the_result_through_forward_alone_gets_none():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = forward_backward(a * 1.0, b * 1.0)
    gradients = tape.gradient(y, [a, b])
    assert gradients[0] is None
    assert float(gradients[1]) == 1.0


def test_variables_are_read_where_they_are_used():
    plain, kept = tf.Variable([1.0, 2.0]), keras.Variable([1.0, 2.0])
    for variable, source in [(plain, plain), (kept, kept.value)]:
        with tf.GradientTape() as tape:
            y = forward_backward(tf.zeros(2), variable)
        np.testing.assert_array_equal(tape.gradient(y, source), [1.0, 1.0])


@pytest.mark.parametrize(
    "signature", [[None], None, [2, None]], ids=["length", "rank", "part"]
)
def test_shapes_known_only_at_run_time(signature):
    spec = tf.TensorSpec(signature, tf.float32)
    call = tf.function(forward_backward, input_signature=[spec, spec])
    shape = [2, 3] if signature == [2, None] else [3]
    ones, zeros = tf.ones(shape), tf.zeros(shape)
    np.testing.assert_array_equal(call(ones, zeros), ones)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="forward_backward needs"
    ):
        call(ones, zeros[..., :1])
