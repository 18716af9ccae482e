"""Gradient checks: what is wrong is found, what is right is left alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from utils.checking import Report, check_gradient, dot_product_test

EXACT = settings(derandomize=True, deadline=None, max_examples=100)


def kinds(report):
    return [finding.kind for finding in report.findings]


def gelu(v):
    return v * tf.sigmoid(1.702 * v)


@tf.custom_gradient
def mixed_gelu(v):
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.nn.gelu(v, approximate=True)
    return gelu(v), lambda upstream: upstream * tape.gradient(y, v)


@tf.custom_gradient
def forgetful(v):
    return v**2, lambda upstream: 2 * v


@tf.custom_gradient
def clipping(v):
    return v**2, lambda upstream: tf.clip_by_value(upstream * 2 * v, -3, 3)


def straight_through(v):
    return tf.stop_gradient(tf.round(v)) + (v - tf.stop_gradient(v))


# What is wrong in TensorFlow is found


def test_cumprod_at_a_zero():
    # Version-bound: repaired after TensorFlow 2.21. The tape is asked first.
    x = tf.constant([0.0, 2.0, 3.0])

    def f(v):
        return tf.reduce_sum(tf.math.cumprod(v))

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    says = tape.gradient(y, x)[0].numpy()
    report = check_gradient(f, x)
    assert report.ok == (says == 9)
    if not report:
        (finding,) = report.findings
        assert (finding.kind, finding.argument, finding.index) == (
            "differs",
            0,
            (0,),
        )
        assert finding.claimed == 0 and finding.measured == pytest.approx(9)
        assert "Slope of f along x[0]: the gradient says 0, measured 9" in str(
            report
        )
    assert check_gradient(tf.reduce_prod, x)


def test_a_gradient_of_another_formula():
    report = check_gradient(mixed_gelu, tf.constant([1.0]))
    (finding,) = report.findings
    assert finding.kind == "differs" and finding.output == (0,)
    assert finding.claimed == pytest.approx(1.0830, abs=5e-5)
    assert finding.measured == pytest.approx(1.0678, abs=5e-5)
    assert check_gradient(gelu, tf.constant([1.0]))
    assert check_gradient(tf.nn.gelu, tf.constant([1.0]))


@pytest.mark.parametrize("x", [1.5, [1.5, 2.0]])
@pytest.mark.parametrize(
    "f",
    [
        forgetful,
        clipping,
        lambda v: tf.reduce_sum(2.0 * tf.cast(forgetful(v), v.dtype)),
    ],
)
def test_a_forgotten_or_clipped_upstream_factor(f, x):
    report = check_gradient(f, tf.constant(x))
    assert not report and report.findings[0].kind == "upstream"
    assert "does it forget to multiply by it, or clip?" in str(report)


def test_a_straight_through_estimator_differs_as_it_must():
    report = check_gradient(straight_through, tf.constant(2.3))
    assert kinds(report) == ["differs"]
    assert (report.findings[0].claimed, report.findings[0].measured) == (1, 0)
    assert "on purpose (a straight-through\n  estimator)" in str(report)


def test_none_is_reported_as_none():
    cut = check_gradient(lambda v: tf.stop_gradient(v) ** 2, tf.constant(2.3))
    assert not cut and kinds(cut) == ["none"]
    assert "is None" in str(cut) and "slopes reach 4.6" in str(cut)
    flat = check_gradient(
        lambda v, w: 2 * v, tf.constant(1.0), tf.constant(1.0)
    )
    assert (
        flat.ok and kinds(flat) == ["none"] and flat.findings[0].argument == 1
    )
    assert "The gradient along args[1] is None" in str(flat)


def test_nan_is_said():
    report = check_gradient(
        lambda v: tf.where(v > 1, tf.math.log(v - 1), v - v),
        tf.constant([1.0, 0.5]),
    )
    assert not report and "not finite" in kinds(report)
    assert "the gradient says nan, measured" in str(report)
    edge = check_gradient(tf.sqrt, tf.constant(0.0))
    assert kinds(edge) == ["not finite"]
    assert "the gradient says inf, but f is not finite around x" in str(edge)
    for x in (np.nan, np.inf):
        assert not check_gradient(tf.square, tf.constant(x))


def test_a_random_function_is_recognised():
    report = check_gradient(
        lambda v: v * tf.random.normal([2]), tf.constant([1.0, 2.0])
    )
    assert not report and kinds(report) == ["random"]
    assert "f is random" in str(report)
    assert not dot_product_test(lambda v: tf.nn.dropout(v, 0.5), tf.ones([40]))
    rng = np.random.default_rng(0)
    assert kinds(check_gradient(lambda x: x * rng.normal(), 1.0)) == ["random"]


# Kinks


def test_kinks():
    report = check_gradient(tf.nn.relu, tf.constant([0.0, 1.0]))
    assert report.ok and kinds(report) == ["kink"]
    assert (
        "within the slopes of a kink, 0 to the left and 1 to the right"
        in str(report)
    )
    outside = check_gradient(np.abs, 0.0, gradient=lambda x: 2.0)
    assert not outside and kinds(outside) == ["kink"]
    assert check_gradient(np.abs, 0.0, gradient=lambda x: 0.0)
    # Kinks that cancel: the slope is 1, automatic differentiation says 0.
    report = check_gradient(
        lambda v: tf.nn.relu(v) - tf.nn.relu(-v), tf.constant(0.0)
    )
    assert kinds(report) == ["differs"]
    # A kink nearby is no kink, and a bend is none.
    near = tf.constant([1e-9, -1e-9, 1e-4])
    assert check_gradient(tf.nn.relu, near).findings == ()
    assert (
        check_gradient(lambda v: v * tf.abs(v), tf.constant(0.0)).findings == ()
    )


def test_a_jump_has_no_slope():
    for f, x in ((straight_through, 2.5), (tf.sign, 0.0)):
        report = check_gradient(f, tf.constant(x))
        assert not report and kinds(report) == ["jump"]


# What is right is left alone


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tf.square, [1e4, 2e4]),
        (lambda v: v * v * tf.constant(1.0), [1e4, 2e4]),  # float32 only
        (tf.sin, [0.1, 1.0, 100.0]),
        (tf.math.log, [1e-8, 1.0, 1e8]),
        (lambda v: 1 / v, [1e-3, 1e3]),
        (lambda v: v**3, [0.0]),
        (tf.cos, [np.pi]),
        (lambda v: tf.reduce_sum(tf.gather(v, [0, 0, 1]) ** 2), [1.0, 2.0]),
        (
            lambda v: tf.nn.softmax(v) @ tf.transpose(v),
            [[1.0, 2.0], [3.0, 5.0]],
        ),
        (tf.function(lambda v: tf.linalg.inv(v)), [[2.0, 1.0], [0.5, 3.0]]),
    ],
)
def test_right_gradients_pass(f, x):
    assert check_gradient(f, tf.constant(x)).findings == ()
    assert dot_product_test(f, tf.constant(x))


def test_precision_is_said():
    single = tf.constant(1.0)
    assert "in float64: all well" in str(check_gradient(tf.sin, single))
    low = check_gradient(lambda v: tf.sin(v) * single, single)
    assert (
        low.ok
        and "float32 (f does not answer in float64: 4 digits at best)"
        in str(low)
    )
    lost = check_gradient(lambda v: tf.sin(v) + 1e6 * single, single)
    assert kinds(lost) == ["uncertain"] and "uncertain by" in str(lost)
    half = check_gradient(lambda v: tf.cast(v, tf.float16) ** 2, single)
    assert half.ok and "float16" in half.title


def test_keras_layers_and_variables():
    tf.keras.utils.set_random_seed(0)
    layer = tf.keras.layers.Dense(2, activation="tanh")
    x = tf.constant([[0.1, 0.2, -0.3]])
    assert check_gradient(layer, x)
    loss = check_gradient(lambda k: tf.reduce_sum((x @ k) ** 2), layer.kernel)
    assert loss.ok and "slopes: 6" in loss.title
    assert check_gradient(lambda v: v**2, tf.Variable([1.0, 2.0]))


# NumPy


def f(x, y):
    return np.sin(x) - y**3


def test_a_gradient_by_hand():
    right = check_gradient(
        f, 3.0, 5.0, gradient=lambda x, y: (np.cos(x), -3 * y**2)
    )
    assert right.ok and right.findings == () and isinstance(right, Report)
    wrong = check_gradient(
        f, 3.0, 5.0, gradient=lambda x, y: (np.cos(x), 3 * y**2)
    )
    (finding,) = wrong.findings
    assert (finding.argument, finding.index, finding.output) == (1, (), ())
    assert finding.measured == pytest.approx(-75) and finding.claimed == 75
    assert (
        "Slope of f along args[1]: the gradient says 75, measured -75"
        in str(wrong)
    )
    with pytest.raises(AssertionError, match="off by 150"):
        wrong.raise_if_wrong()
    right.raise_if_wrong()


def test_a_jacobian_by_hand():
    x = np.array([0.3, 0.7, 1.1])
    assert check_gradient(np.sin, x, gradient=lambda x: np.diag(np.cos(x)))
    report = check_gradient(
        np.sin, x, gradient=lambda x: np.diag(np.cos(x))[::-1]
    )
    assert report.findings[0].index in [(0,), (2,)]
    off = [abs(g.claimed - g.measured) for g in report.findings]
    assert off == sorted(off, reverse=True) and len(off) == 4


def test_reverse_mode_is_checked_by_default():
    x = np.array([[0.3, -0.7], [1.1, 2.0]])
    for g in (
        lambda x: np.tanh(x @ x),
        lambda x: np.sum(np.exp(x) * x[0], axis=0),
    ):
        assert check_gradient(g, x)
        assert dot_product_test(g, x)
    assert check_gradient(f, 3.0, 5.0) and dot_product_test(f, 3.0, 5.0)
    assert check_gradient(f, np.float32(3), np.float32(5)).findings == ()


def test_the_dot_product_test():
    x = tf.constant([0.0, 2.0, 3.0])
    report = dot_product_test(tf.sin, x)
    (finding,) = report.findings
    assert report.ok and finding.claimed == pytest.approx(finding.measured)
    # Blind to a mistake of both modes: forward mode transposes reverse mode.
    assert dot_product_test(straight_through, tf.constant(2.3))
    # Version-bound: eager forward mode looks through a custom gradient.
    assert not dot_product_test(mixed_gelu, tf.constant([1.0, 2.0]))
    assert str(report).startswith(
        "dot_product_test, in float64: all well.\n  <u, J v> ="
    )


def test_the_seed_decides():
    def number(seed):
        return (
            dot_product_test(tf.sin, tf.constant(1.0), seed=seed)
            .findings[0]
            .claimed
        )

    assert number(1) == number(1) != number(2)


def test_numpy_users_do_not_pay_for_tensorflow():
    code = (
        "import sys, numpy as np; from utils.checking import check_gradient; "
        "assert check_gradient(np.sin, 1.0, gradient=np.cos); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# On random functions: no false alarm, no miss

FUNCTIONS = {
    "square": (np.square, lambda x: 2 * x, st.floats(-1e6, 1e6)),
    "cube": (lambda x: x**3, lambda x: 3 * x**2, st.floats(-1e3, 1e3)),
    "exp": (np.exp, np.exp, st.floats(-20, 20)),
    "log": (np.log, lambda x: 1 / x, st.floats(1e-9, 1e9)),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x), st.floats(1e-6, 1e6)),
    "sin": (np.sin, np.cos, st.floats(-1e3, 1e3)),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2, st.floats(-6, 6)),
    "1/x": (lambda x: 1 / x, lambda x: -(x**-2), st.floats(1e-4, 1e4)),
}


@EXACT
@given(st.sampled_from(sorted(FUNCTIONS)), st.data(), st.floats(-3, 3))
def test_no_false_alarm(name, data, weight):
    g, slope, where = FUNCTIONS[name]
    x = data.draw(where)
    report = check_gradient(
        lambda x: weight * g(x), x, gradient=lambda x: weight * slope(x)
    )
    assert report.ok, report


@EXACT
@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.data(),
    st.sampled_from([0.99, 1.001, -1]),
)
def test_no_miss(name, data, factor):
    g, slope, where = FUNCTIONS[name]
    x = data.draw(where)
    # Where f is large and flat, or its slope has a zero, rounding hides more.
    assume(abs(slope(x)) * max(1e-3, abs(x)) > 1e-3 * abs(g(x)))
    assume(abs(slope(x)) > 1e-6)
    report = check_gradient(g, x, gradient=lambda x: factor * slope(x))
    assert kinds(report) == ["differs"], report
