"""Every disease of a gradient is named with its op and the reader's line.

In the functions below ``# here`` marks the line that has to be found.
"""

from __future__ import annotations

import re
import types

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.patches import FancyArrowPatch

from utils.diagnose import explain_gradient
from utils.two_expressions import forward_backward

PAIR = tf.constant([1.0, 2.0])
POINTS = tf.constant([-1.0, 0.0, 1.0])
ZEROS = tf.constant([0.0, 0.0])
OUTSIDE = tf.Variable(1.0)


@tf.function
def logarithm(z):
    return tf.math.log(z)  # here


@tf.custom_gradient
def without_gradient(x):
    return 2.0 * x, lambda upstream: None


@tf.custom_gradient
def log1pexp_of_the_manual(x):
    e = tf.exp(x)  # here
    return tf.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))


class Named:
    """Functions to explain, each found by its name."""

    def r01_plain(x):
        return 2 * x + 3

    def r03_through_numpy(x):
        squares = x * x
        return tf.reduce_sum(tf.constant(squares.numpy()))  # here

    def r03_half_through_numpy(x):
        half = tf.reduce_sum(x * x)
        return half + tf.reduce_sum(np.exp(x))  # here

    def r05_assigned(x):
        w = OUTSIDE.assign_add(x)  # here
        return w * w

    def r19_total(a):
        b = 2 * a
        return a + b

    def r30_log(x):
        y = tf.math.log(x)  # here
        return tf.where(x > 0.5, y, 0.0)

    def r30_one_over(x):
        y = 1 / x  # here
        return tf.where(x > 0.5, y, 0.0)

    def r30_power(x):
        y = x**0.5  # here
        return tf.where(x > 0.5, y, 0.0)

    def r30_sqrt(x):
        y = tf.sqrt(x)  # here
        return tf.where(x > 0.5, y, 0.0)

    def r30_sqrt_safe(x):
        y = tf.sqrt(tf.where(x > 0.5, x, 1.0))
        return tf.where(x > 0.5, y, 0.0)  # here

    def r30_second_derivative(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.where(x > 0.5, tf.sqrt(x), 0.0)
        return tape.gradient(y, x)  # here

    def r31_norm(x):
        return tf.norm(x)  # here

    def r31_euclidean_norm(x):
        return tf.math.reduce_euclidean_norm(x)  # here

    def r31_std(x):
        return tf.math.reduce_std(x)  # here

    def r31_guarded(x):
        return tf.sqrt(tf.maximum(tf.reduce_sum(x * x), 1e-30))  # here

    def r31_l2_normalize(x):
        return tf.math.l2_normalize(x)

    def r32_clip_by_norm(x):
        return tf.clip_by_norm(x, 1.0)

    def r32_clip_by_global_norm(x):
        (clipped,), _ = tf.clip_by_global_norm([x], 1.0)  # here
        return clipped

    def r34_acos_then_slice(x):
        y = tf.acos(x)  # here
        return y[:1]

    def r34_slice_then_acos(x):
        y = x[:1]  # here
        return tf.acos(y)

    def r36_gamma(x):
        return x ** (1 / 2.4)  # here

    def r36_power_zero(x):
        return x**0.0  # here

    def r38_square_of_root(x):
        root = tf.sqrt(x)
        return tf.square(root)  # here

    def r38_square_of_root_compiled(x):
        root = tf.sqrt(x)  # here
        return tf.square(root)

    def r39_naive(x):
        e = tf.exp(x)  # here
        return tf.math.log(1 + e)

    def r41_max(x):
        return tf.reduce_max(x)  # here

    def r43_floor(x):
        return tf.floor(x)  # here

    def r43_round(x):
        return tf.round(x)  # here

    def r43_ceil(x):
        return tf.math.ceil(x)  # here

    def r43_sign(x):
        return tf.sign(x)  # here

    def r43_integer_part(x):
        return x // 2.0  # here

    def r43_remainder(x):
        return x % 2.0

    def r46_clip(x):
        return tf.clip_by_value(x, -1.0, 1.0)  # here

    def r76_statement(x):
        r = tf.round(x)  # here
        tf.stop_gradient(x)
        return r

    def r76_all_stopped(x):
        r = tf.round(x)  # here
        return tf.stop_gradient(r)  # here

    def r76_wrong_place(x):
        a = tf.stop_gradient(x)  # here
        b = tf.round(x)  # here
        return a + b - x

    # Of the same kinds, but in no report.

    def stopped(x):
        y = tf.sin(x)
        return tf.stop_gradient(y) * 2.0  # here

    def by_integers(x):
        y = tf.cast(x, tf.int32)  # here
        return tf.cast(y, tf.float32) ** 2

    def by_an_index(x):
        best = tf.argmax(x)  # here
        return tf.one_hot(best, 2) * 3.0

    def an_index(x):
        return tf.argmax(x)  # here

    def by_a_comparison(x):
        large = x > 1.0  # here
        return tf.cast(large, tf.float32)

    def by_numpy_function(x):
        return tf.numpy_function(np.sin, [x], tf.float32)  # here

    def by_a_python_number(x):
        return float(x[0]) * x[0]  # here

    def by_custom_gradient(x):
        return without_gradient(x)  # here

    def by_an_op_without_gradient(x):
        x = x[None, None, None]
        lrn_grad = tf.raw_ops.LRNGrad
        return lrn_grad(input_grads=x, input_image=x, output_image=x)  # here

    def in_a_called_function(x):
        return tf.where(x > 0.5, logarithm(x), 0.0)

    def in_a_branch(x):
        if tf.reduce_sum(x) > 0:
            x = x + 1.0
            y = tf.sign(x)  # here
        else:
            y = tf.round(x)  # here
        return y

    def in_tf_cond(x):
        def taken():
            return tf.sqrt(x - 1.0)  # here

        return tf.cond(x[0] > 0, taken, lambda: x)

    def in_the_third_round(x):
        for i in tf.range(4):
            if i == 2:
                x = tf.round(x)  # here
            x = 1.5 * x
        return x

    def in_tf_while(x):
        def body(i, a):
            return i + 1, tf.sqrt(a - 1.0)  # here

        return tf.while_loop(lambda i, a: i < 2, body, [0, x])[1]

    def in_map_fn(x):
        def inner(a):
            return tf.math.log(a - 1.0)  # here

        return tf.map_fn(inner, x)

    def by_the_number_of_rounds(x):
        y = 1.0
        while y < x[0] + 2.0:  # here
            y = 2.0 * y
        return y

    def saturated(x):
        return tf.sigmoid(100.0 * x)  # here

    def dead(x):
        return tf.nn.relu(x - 5.0)  # here

    def masked(x):
        return tf.sin(x) * tf.zeros(2)  # here

    def zero_weights(x):
        hidden = tf.tanh(x[None])
        return hidden @ tf.zeros([2, 3])  # here

    def cancelled(x):
        return x - x  # here

    def log_of_softmax(x):
        p = tf.nn.softmax(100.0 * x)
        return -tf.math.log(p[0])  # here

    def log_of_sum_of_exp(x):
        y = tf.exp(100.0 * x)  # here
        return tf.math.log(tf.reduce_sum(y))

    def outside_of_the_domain(x):
        return tf.acos(x)  # here

    def straight_through_by_utils(x):
        return forward_backward(tf.round(x), x)  # here


def compiled(name):
    return tf.function(getattr(Named, name), jit_compile=True)


CASES = [
    # reports: name, input, disease, ops from the input on
    ("r01_plain", tf.constant(0.0), "fine", ""),
    ("r03_through_numpy", PAIR, "None", "Python"),
    ("r03_half_through_numpy", PAIR, "incomplete", "Python"),
    ("r05_assigned", tf.constant(2.0), "None", "AssignAddVariableOp"),
    ("r19_total", tf.constant(0.0), "fine", ""),
    ("r30_log", POINTS, "NaN", "Log"),
    ("r30_one_over", POINTS, "NaN", "RealDiv"),
    ("r30_power", POINTS, "NaN", "Pow"),
    ("r30_sqrt_safe", POINTS, "fine", "SelectV2"),
    ("r31_norm", ZEROS, "NaN", "Sqrt"),
    ("r31_norm", tf.constant([1e-25]), "inf", "Sqrt"),
    ("r31_euclidean_norm", ZEROS, "NaN", "EuclideanNorm"),
    ("r31_std", tf.constant([2.0, 2.0]), "NaN", "Sqrt"),
    ("r31_guarded", ZEROS, "zero", "Maximum"),
    ("r31_l2_normalize", ZEROS, "fine", ""),
    ("r32_clip_by_norm", ZEROS, "fine", ""),
    ("r32_clip_by_global_norm", ZEROS, "NaN", "RealDiv"),
    ("r34_acos_then_slice", tf.constant([-0.5, 2.0]), "NaN", "Acos"),
    ("r34_slice_then_acos", tf.constant([-0.5, 2.0]), "fine", "StridedSlice"),
    ("r36_gamma", tf.constant([0.0, 1e-5]), "inf", "Pow"),
    ("r36_power_zero", tf.constant(0.0), "NaN", "Pow"),
    ("r38_square_of_root", tf.constant(0.0), "zero", "Square"),
    ("r39_naive", tf.constant(100.0), "NaN", "Exp"),
    ("r43_floor", PAIR, "None", "Floor"),
    ("r43_round", PAIR, "None", "Round"),
    ("r43_ceil", PAIR, "None", "Ceil"),
    ("r43_sign", PAIR, "zero", "Sign"),
    ("r43_integer_part", PAIR, "None", "FloorDiv"),
    ("r43_remainder", PAIR, "fine", ""),
    ("r46_clip", tf.constant([-2.0, 0.0, 2.0]), "fine", "Minimum Maximum"),
    ("r46_clip", tf.constant([3.0, 2.0]), "zero", "Minimum"),
    ("r76_statement", PAIR, "None", "Round"),
    ("r76_all_stopped", PAIR, "None", "Round StopGradient"),
    ("r76_wrong_place", PAIR, "fine", "Round StopGradient"),
    # others of each kind
    ("stopped", PAIR, "None", "StopGradient"),
    ("by_integers", PAIR, "None", "Cast"),
    ("by_an_index", PAIR, "None", "ArgMax"),
    ("an_index", PAIR, "None", "ArgMax"),
    ("by_a_comparison", PAIR, "None", "Greater"),
    ("by_numpy_function", PAIR, "None", "PyFunc"),
    ("by_a_python_number", PAIR, "incomplete", "Python"),
    ("by_custom_gradient", PAIR, "None", "IdentityN"),
    ("by_an_op_without_gradient", PAIR, "None", "LRNGrad"),
    ("in_a_called_function", POINTS, "NaN", "Log"),
    ("in_a_branch", PAIR, "zero", "Sign"),
    ("in_a_branch", -PAIR, "None", "Round"),
    ("in_tf_cond", PAIR, "inf", "Sqrt"),
    ("in_the_third_round", PAIR, "None", "Round"),
    ("in_tf_while", tf.constant([5.0, 2.0]), "inf", "Sqrt"),
    ("in_map_fn", PAIR, "inf", "Log"),
    ("by_the_number_of_rounds", PAIR, "None", "Less"),
    ("saturated", PAIR, "zero", "Sigmoid"),
    ("dead", PAIR, "zero", "Relu"),
    ("masked", PAIR, "zero", "Mul"),
    ("zero_weights", PAIR, "zero", "MatMul"),
    ("cancelled", PAIR, "zero", "Sub"),
    ("log_of_softmax", tf.constant([-2.0, 0.0]), "NaN", "Log"),
    ("log_of_sum_of_exp", PAIR, "NaN", "Exp"),
    ("outside_of_the_domain", tf.constant([0.0, 2.0]), "NaN", "Acos"),
    ("straight_through_by_utils", PAIR, "fine", "Round"),
]


def ops(finding):
    return [place.op for place in finding.places]


def check(explanation, disease, expected):
    (finding, *_) = explanation.findings
    assert finding.disease == disease, explanation
    assert ops(finding) == expected.split(), explanation
    for place in finding.places:
        assert "# here" in place.code, explanation
        assert place.why[-1] in ".?"


@pytest.mark.parametrize("name, x, disease, expected", CASES)
def test_names_the_disease_the_op_and_the_line(name, x, disease, expected):
    explanation = explain_gradient(getattr(Named, name), x)
    check(explanation, disease, expected)
    assert explanation.passes == 1
    assert OUTSIDE.numpy() == 1.0


def test_the_same_inside_a_function_of_tensorflow():
    for name, x, disease, expected in CASES[::3]:
        f = getattr(Named, name)
        if not expected.startswith("Python"):
            check(explain_gradient(tf.function(f), x), disease, expected)


@pytest.mark.parametrize(
    "name, x, disease, expected",
    [
        ("r30_sqrt", POINTS, "NaN", "Sqrt"),
        ("r30_power", POINTS, "NaN", "Pow"),
        ("r38_square_of_root_compiled", tf.constant(0.0), "NaN", "Sqrt"),
        ("r41_max", tf.constant([1.0, 2.0, np.nan]), "fine", "Max"),
    ],
)
def test_sees_what_xla_does(name, x, disease, expected):
    f = compiled(name)
    check(explain_gradient(f, x), disease, expected)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    finite = np.isfinite(tape.gradient(y, x)).all()
    assert finite == (disease == "fine"), "and XLA itself agrees"


def test_sqrt_behind_where_is_finite_until_its_second_derivative():
    assert explain_gradient(Named.r30_sqrt, POINTS)["x"].disease == "fine"
    finding = explain_gradient(Named.r30_second_derivative, POINTS)["x"]
    assert finding.disease == "NaN"
    assert finding.places[0].op == "SqrtGrad"
    assert "# here" in finding.places[0].code


def test_shows_the_values_that_made_it_so():
    (place,) = explain_gradient(Named.r30_log, POINTS)["x"].places
    assert place.values == {
        "index": (1,),
        "inputs": (0.0,),
        "output": -np.inf,
        "upstream": 0.0,
        "contribution": pytest.approx(np.nan, nan_ok=True),
    }
    assert "where(ok, x, 1)" in place.why


def test_says_where_the_value_went_bad():
    explanation = explain_gradient(Named.r39_naive, tf.constant(100.0))
    assert explanation.value == np.inf
    assert [p.op for p in explanation.places] == ["Exp"]
    assert "stable form" in explanation.places[0].why
    manual = explain_gradient(log1pexp_of_the_manual, tf.constant(100.0))
    assert manual.ok and manual.value == np.inf
    assert "# here" in manual.places[0].code
    x = tf.constant([1.0, 2.0, np.nan])
    maximum = explain_gradient(Named.r41_max, x)
    assert ops(maximum["x"]) == ["Max", "input"]
    assert maximum.places[0].why.startswith("x holds NaN")
    log = explain_gradient(tf.math.log, tf.constant(-1.0))
    assert log.ok and np.isnan(log.value) and log.places[0].op == "Log"


def test_r05_each_reading_of_a_variable_counts():
    u = tf.Variable(1.0)

    def f():
        a = u * u
        u.assign(5.0)
        return a + u * u

    explanation = explain_gradient(f)
    assert explanation["u"].gradient == 12.0
    assert u.numpy() == 1.0


def test_r06_and_r68_variables_that_are_not_used():
    used, unused = tf.Variable(3.0), tf.Variable(PAIR, name="spare")
    explanation = explain_gradient(lambda: used**2, variables=[used, unused])
    assert explanation["used"].disease == "fine"
    assert explanation["spare"].disease == "None"
    assert explanation["spare"].note == "f does not use it."


def test_r01_r02_r08_r11_point_at_the_tape_if_all_is_whole():
    text = repr(explain_gradient(Named.r01_plain, tf.constant(0.0)))
    for word in ("watched before", "in the block", "asked once"):
        assert word in text.replace("\n", " ")


def test_r02_a_tensor_made_outside_is_suspected():
    h = PAIR**2
    explanation = explain_gradient(lambda x: tf.reduce_sum(h), PAIR)
    assert explanation["x"].disease == "None"
    assert "It uses h, made outside of f" in explanation["x"].note


def test_r12_tf_gradients_inside_works():
    f = lambda x: tf.gradients(x * x, x)  # noqa: E731
    assert explain_gradient(f, tf.constant(2.0))["x"].gradient == 2.0


@pytest.mark.parametrize("x", [3, np.int64(3), tf.constant([3, 4])])
def test_integers_are_a_finding(x):
    finding = explain_gradient(lambda x: 2 * x, x)["x"]
    assert finding.disease == "None"
    assert re.match(r"int(32|64) has no slope", finding.note)


@pytest.mark.parametrize(
    "given", [3.0, np.array([1.0, 2.0]), [1.0, 2.0], tf.Variable(PAIR)]
)
def test_takes_numbers_arrays_lists_and_variables(given):
    explanation = explain_gradient(lambda x: x**2, given)
    expected = 2 * np.asarray(tf.convert_to_tensor(given))
    np.testing.assert_allclose(explanation["x"].gradient, expected)


def test_takes_structures_and_hands_on_the_rest():
    def f(d, mode):
        return d["a"] * 2 + tf.round(d["b"]) if mode == "sum" else None

    explanation = explain_gradient(f, {"a": PAIR, "b": PAIR}, "sum")
    assert [f.disease for f in explanation.findings] == ["fine", "None"]


def test_sums_several_results():
    explanation = explain_gradient(lambda x: (x, {"a": x * x}), PAIR)
    np.testing.assert_allclose(explanation["x"].gradient, [3.0, 5.0])
    assert explanation.value == 8.0


def test_a_value_that_moves_with_an_unused_input_is_suspected():
    def f(x):
        return tf.constant(2.0) if tf.is_symbolic_tensor(x) else x * x

    note = explain_gradient(f, tf.constant(3.0))["x"].note
    assert "likely" in note and "moves with it" in note


def test_a_frozen_variable_is_pointed_out():
    frozen = tf.Variable(3.0, trainable=False)
    finding = explain_gradient(lambda: frozen**2, variables=[frozen])["frozen"]
    assert finding.disease == "fine"
    assert finding.note.startswith("Not trainable")


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = layers.Input((4,))
    x = layers.Dense(3, name="first")(inputs)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Lambda(keras.ops.round, name="quantize")(x)
    model = keras.Model(inputs, layers.Dense(1, name="last")(x))
    model.compile("sgd", "mse")
    return model


def test_explains_a_compiled_keras_model(model):
    before = [v.numpy() for v in model.variables]
    explanation = explain_gradient(model, tf.ones([2, 4]), tf.ones([2, 1]))
    found = {f.name: f.disease for f in explanation.findings}
    assert found["first/kernel"] == found["norm/gamma"] == "None"
    assert found["last/bias"] == "fine"
    (place,) = explanation["first/kernel"].places
    assert place.op == "Round" and "quantize" in place.name
    assert "explain_gradient(model" in place.code
    for v, old in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(v, old, v.path)


def test_names_the_line_in_the_readers_layer():
    class Unit(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=(), initializer="ones")

        def call(self, x):
            return self.scale * x / tf.norm(x)  # here

    unit = Unit()
    unit(PAIR)
    check(explain_gradient(lambda x: unit(x), PAIR), "fine", "")
    explanation = explain_gradient(lambda x: unit(x), ZEROS)
    assert np.isnan(explanation.value)
    assert "# here" in explanation.places[0].code
    assert explanation["unit/variable"].disease == "NaN"


def test_a_recurrent_layer_and_an_embedding():
    layers = keras.layers
    model = keras.Sequential(
        [layers.Embedding(5, 3), layers.LSTM(2), layers.Dense(1)]
    )
    ids = tf.constant([[1, 2], [2, 3]])
    model(ids)
    explanation = explain_gradient(model, ids, variables=model.weights)
    with tf.GradientTape() as tape:
        y = model(ids)
    claims = tape.gradient(y, model.trainable_variables)
    for v, claim in zip(model.trainable_variables, claims, strict=True):
        found = explanation[v.path].gradient
        claim = tf.convert_to_tensor(claim)
        np.testing.assert_allclose(found, claim, rtol=1e-4, atol=1e-7)


def test_the_gradient_is_that_of_the_tape():
    for name, x, _, expected in CASES:
        if expected.startswith("Python") or "without" in name:
            continue
        f = tf.function(getattr(Named, name))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        claim = tape.gradient(y, x)
        found = explain_gradient(f, x).findings[0].gradient
        if found is None:  # tf.cond says 0 if its other branch has a path
            assert claim is None or not claim.numpy().any(), name
        else:
            np.testing.assert_allclose(found, claim, rtol=1e-5, err_msg=name)


def test_an_f_that_cannot_be_traced_gets_one_line():
    explanation = explain_gradient(Named.r03_through_numpy, PAIR)
    assert "\n" not in explanation.problem
    assert "has no attribute 'numpy'" in explanation.problem
    assert explanation.passes == 1


def test_an_f_that_cannot_be_run_gets_one_line():
    explanation = explain_gradient(lambda x: x[7], PAIR)
    assert explanation.value is None
    assert explanation["x"].disease == "unknown"
    assert "out of bounds" in explanation.problem
    assert "\n" not in explanation.problem

    def f(x):
        tf.debugging.assert_less(x, 0.0)
        return x

    assert "assertion failed" in explain_gradient(f, PAIR).problem


def test_an_f_that_makes_its_own_variable():
    explanation = explain_gradient(lambda x: tf.Variable(2.0) * x, PAIR)
    assert "singleton" in explanation.problem
    assert explanation["x"].disease == "fine"


def test_prints_a_short_table():
    w = tf.Variable(2.0)

    def f(x):
        return w * tf.where(x > 0, tf.math.log(x), 0.0)  # here

    text = repr(explain_gradient(f, tf.constant([0.0, 2.0])))
    assert text.splitlines()[0].startswith("value 1.386; ")
    assert re.search(r"^NaN +x \(1 of 2\)$", text, re.MULTILINE)
    assert re.search(r"^fine +w", text, re.MULTILINE)
    assert re.search(
        r"^  Log, line \d+ of test_diagnose.py:$", text, re.MULTILINE
    )
    for name, x, *_ in CASES:
        for line in repr(
            explain_gradient(getattr(Named, name), x)
        ).splitlines():
            assert len(line) <= 66, line


def test_says_cell_instead_of_the_file_of_a_cell():
    for file in ("ipykernel_7/123.py", "<ipython-input-3-abc>"):
        code = compile("def f(x):\n    return tf.round(x)", file, "exec")
        cell = types.ModuleType("cell")
        cell.tf = tf
        exec(code, vars(cell))
        assert "line 2 of a cell" in repr(explain_gradient(cell.f, PAIR))


def test_draws_the_path_with_the_culprit_marked():
    figure = explain_gradient(Named.r76_all_stopped, PAIR).draw("x")
    texts = [t.get_text() for t in figure.findobj(plt.Text)]
    assert "Round" in texts and "StopGradient" in texts
    crosses = [line for line in figure.lines if line.get_marker() == "x"]
    assert len(crosses) == 2

    def entropy(x):
        return tf.where(x > 0, x * tf.math.log(x), 0.0)

    figure = explain_gradient(entropy, POINTS).draw("x")
    arrows = [a.get_linewidth() for a in figure.findobj(FancyArrowPatch)]
    assert arrows.count(3) == 2, "from x to Log and to Mul, not Log to Mul"

    def deep(x):
        for _ in range(10):
            x = tf.sin(x)
        x = tf.sign(x)
        for _ in range(10):
            x = tf.cos(x)
        return x, tf.sin(x)

    figure = explain_gradient(deep, PAIR).draw("x")
    texts = [t.get_text() for t in figure.findobj(plt.Text)]
    assert "Sign" in texts and texts.count("...") == 2
    plt.close("all")
