"""ForwardBackward: a Keras layer with the value of one call and the derivatives of another."""

from __future__ import annotations

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from utils.keras_layers import ForwardBackward

MODES = {
    "eager": lambda f: f,
    "graph": tf.function,
    "xla": lambda f: tf.function(f, jit_compile=True),
}
modes = pytest.mark.parametrize("mode", MODES)
pytestmark = [  # Keras's own warnings: of a block without `build`, and to NumPy
    pytest.mark.filterwarnings("ignore:.build.*was called"),
    pytest.mark.filterwarnings("ignore:__array__ implementation"),
]
NOISY, CLEAN = {"noisy": True}, {"noisy": False}
X = tf.random.Generator.from_seed(1).normal([8, 3])


@pytest.fixture(autouse=True)
def _same_weights_in_every_run():
    keras.utils.set_random_seed(0)


@keras.saving.register_keras_serializable(package="tests")
class Noise(keras.layers.Layer):
    """Multiply by a draw from U(0.5, 1.5)."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1)
        self._register_call_context_args("noisy")

    def call(self, x, noisy=True):
        shape = keras.ops.shape(x)
        u = keras.random.uniform(shape, 0.5, 1.5, x.dtype, self.seed_generator)
        return x * u if noisy else x


@keras.saving.register_keras_serializable(package="tests")
class Block(keras.layers.Layer):
    """Dense, noise, tanh: without a ``build`` of its own, as most are written."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(4)
        self.noise = Noise()

    def call(self, x, noisy=True):
        return keras.ops.tanh(self.noise(self.dense(x), noisy=noisy))


class Layer(keras.layers.Layer):
    """A function as a layer."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, parts

    def call(self, x, noisy=True):
        return self.function(x, noisy, *self.parts)


def wrap(block, **kwargs):
    return ForwardBackward(block, NOISY, CLEAN, **kwargs)


def value_and_gradients(f, sources):
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = f(X)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
    return y, tape.gradient(loss, [X, *sources])


def compiled(*layers, **kwargs):
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile("sgd", "mse", **kwargs)
    return model


@modes
@pytest.mark.parametrize("training", [True, False])
def test_value_of_one_call_and_derivatives_of_the_other(mode, training):
    layer = wrap(Block())
    layer.build(X.shape)
    weights = [w.value for w in layer.trainable_weights]
    y, gradients = MODES[mode](
        lambda: value_and_gradients(
            lambda x: layer(x, training=training), weights
        )
    )()
    layer.block.noise.seed_generator.state.assign([1, 0])  # the same draw
    noisy = MODES[mode](lambda: layer.block(X))()
    np.testing.assert_allclose(y, noisy, rtol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(X)
        clean = layer.block(X, noisy=False)
    assert not np.allclose(y, clean, rtol=0.01)
    expected = tape.gradient(clean, [X, *weights], output_gradients=2 * y)
    for gradient, wanted in zip(gradients, expected):
        # float32: a small entry has the rounding of the large ones beside it
        near = 1e-5 * np.abs(wanted).max()
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=near)


def test_both_calls_share_the_weights_of_the_block():
    layer = wrap(Block(), name="join")
    layer(X)
    assert layer.name == "join"
    assert [id(w) for w in layer.weights] == [
        id(w) for w in layer.block.weights
    ]
    assert [w.shape for w in layer.trainable_weights] == [(3, 4), (4,)]
    layer.trainable = False
    assert layer.trainable_weights == []


def structured():
    def both(inputs, noisy):
        a, b = inputs["a"], inputs["b"]
        return {"sum": [a + b if noisy else a - b], "twice": 2 * a}

    return wrap(Layer(both))


def test_structures_of_inputs_and_outputs():
    inputs = {"a": X, "b": X + 1}
    layer = structured()
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = layer(inputs)
    np.testing.assert_array_equal(y["sum"][0], X + (X + 1))
    np.testing.assert_array_equal(y["twice"], 2 * X)
    gradients = tape.gradient(y["sum"], inputs)
    np.testing.assert_array_equal(gradients["a"], tf.ones_like(X))
    np.testing.assert_array_equal(gradients["b"], -tf.ones_like(X))


def test_shapes_are_found_by_a_symbolic_call():
    shape = {"a": (None, 3), "b": (None, 3)}
    assert structured().compute_output_shape(shape) == {
        "sum": [(None, 3)],
        "twice": (None, 3),
    }
    spec = structured()({"a": keras.Input((3,)), "b": keras.Input((3,))})
    assert spec["sum"][0].shape == spec["twice"].shape == (None, 3)
    assert wrap(Block()).compute_output_shape((5, 3)) == (5, 4)


@pytest.mark.parametrize("how", ["build", "call", "symbolic", "model"])
def test_building_builds_the_parts_of_the_block(how):
    layer = wrap(Block())
    if how == "build":
        layer.build((None, 3))
    elif how == "call":
        layer(X)
    elif how == "symbolic":
        layer(keras.Input((3,)))
    else:
        keras.Sequential([layer]).build((None, 3))
    assert layer.built
    assert len(layer.weights) == 2
    state = layer.block.noise.seed_generator.state.numpy().tolist()
    assert state == [1, 1 if how == "call" else 0]


def test_integer_input():
    layer = wrap(
        Layer(
            lambda ids, noisy, table: table(ids) * (2.0 if noisy else 1.0),
            keras.layers.Embedding(5, 2),
        )
    )
    assert layer(tf.constant([[1, 2]])).shape == (1, 2, 2)


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = wrap(Block())
        self.out = keras.layers.Dense(1)

    def call(self, x):
        return self.out(self.hidden(x))


def functional():
    x = keras.Input((3,))
    return keras.Model(x, keras.layers.Dense(1)(wrap(Block())(x)))


def sequential():
    return keras.Sequential(
        [keras.Input((3,)), wrap(Block()), keras.layers.Dense(1)]
    )


@pytest.mark.parametrize(
    ("make", "jit_compile"),
    [(functional, False), (Subclassed, False), (sequential, True)],
)
def test_fit_with_callbacks(make, jit_compile, tmp_path):
    model = make()
    model.compile("sgd", "mse", jit_compile=jit_compile)
    path = tmp_path / "best.weights.h5"
    callbacks = [
        keras.callbacks.EarlyStopping("val_loss", patience=9),
        keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
        keras.callbacks.TerminateOnNaN(),
    ]
    data = X, tf.reduce_sum(X, 1, keepdims=True)
    before = model.evaluate(*data, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit(*data, 8, 5, 0, callbacks=callbacks, validation_data=data)
    assert path.exists()
    assert model.evaluate(*data, verbose=0) < before
    assert model.predict(X, verbose=0).shape == (8, 1)


@pytest.mark.parametrize("make", [functional, sequential, Subclassed])
def test_saved_and_loaded_it_goes_on_alike(make, tmp_path):
    model = make()
    model(X)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    old, new = model.layers[-2], loaded.layers[-2]
    assert isinstance(new, ForwardBackward)
    assert (new.forward, new.backward) == (NOISY, CLEAN)
    # Keras saves the weights, not the state of a seed generator.
    old.block.noise.seed_generator.state.assign([1, 0])
    for _ in range(2):
        np.testing.assert_array_equal(model(X), loaded(X))


def test_config_round_trip():
    layer = ForwardBackward(
        Block(name="inner"), {"noisy": True}, {}, name="join", dtype="float64"
    )
    layer.build((None, 3))
    copy = ForwardBackward.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert (copy.name, copy.block.name) == ("join", "inner")
    assert copy.forward == {"noisy": True} and copy.backward == {}
    assert copy.block is not layer.block
    model = keras.models.clone_model(sequential())
    assert isinstance(model.layers[0], ForwardBackward)


@pytest.mark.parametrize(
    "dtype", ["mixed_float16", "mixed_bfloat16", "float64"]
)
def test_dtypes_are_those_of_the_block(dtype):
    block = Layer(
        lambda x, noisy, dense: dense(x) * (2 if noisy else 1),
        keras.layers.Dense(4, dtype=dtype),
    )
    block.dtype_policy = dtype
    layer = wrap(block)
    y, gradients = value_and_gradients(layer, [])
    weights = layer.trainable_weights
    assert keras.backend.standardize_dtype(y.dtype) == block.compute_dtype
    assert gradients[0].dtype == X.dtype
    assert {w.dtype for w in weights} == {block.variable_dtype}
    with tf.GradientTape() as tape:
        y = layer(X)
    assert all(g is not None for g in tape.gradient(y, weights))


def test_what_the_block_computes_in_float64_is_not_cast_on_the_way():
    block = Layer(lambda x, noisy: x * 1.0)
    block.dtype_policy = "float64"
    x = tf.constant([1 + 1e-12], tf.float64)
    np.testing.assert_array_equal(wrap(block)(x), x)


def test_fit_under_a_mixed_precision_policy():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = compiled(wrap(Block()), keras.layers.Dense(1))
        model.fit(X, X[:, :1], verbose=0)
        assert model.layers[0](X).dtype == tf.float16
        assert all(np.isfinite(w).all() for w in model.get_weights())
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("returns", ["sequence", "last"])
def test_masks_are_those_of_the_block(returns):
    ids = tf.constant([[1, 2, 0], [3, 0, 0]])
    recurrent = keras.layers.GRU(2, return_sequences=returns == "sequence")
    layer = wrap(
        Layer(
            lambda v, noisy, gru: gru(v * 2.0 if noisy else v),
            recurrent,
        )
    )
    layer.block.supports_masking = returns == "sequence"
    embedded = keras.layers.Embedding(5, 2, mask_zero=True)(ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = layer(embedded)
    mask = getattr(y, "_keras_mask", None)
    if returns == "sequence":
        np.testing.assert_array_equal(mask, ids != 0)
    else:
        assert mask is None


def stateful(normal, drop, noise):
    def call(x, noisy, normal, drop, noise):
        return drop(normal(noise(x, noisy=noisy)))

    return Layer(call, normal, drop, noise)


@modes
def test_both_calls_start_from_one_state_and_the_forward_call_leaves_its_own(
    mode,
):
    def parts():
        return (
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=3),
            Noise(),
        )

    layer, alone = wrap(stateful(*parts())), stateful(*parts())
    layer.build(X.shape)
    alone.build(X.shape)
    both = MODES[mode](lambda x: layer(x, training=True))
    one = MODES[mode](lambda x: alone(x, training=True))
    draws = []
    for _ in range(3):
        draws.append(both(X).numpy())
        np.testing.assert_allclose(draws[-1], one(X), rtol=1e-5)
    assert not np.allclose(draws[0], draws[1])
    states = zip(layer.non_trainable_variables, alone.non_trainable_variables)
    for mine, wanted in states:
        np.testing.assert_allclose(mine, wanted, rtol=1e-5)


@modes
def test_a_dropout_drops_the_same_units_in_both_calls(mode):
    drop = keras.layers.Dropout(0.5, seed=3)
    layer = wrap(Layer(lambda x, noisy, d: d(x) * (3 if noisy else 1), drop))
    layer.build(X.shape)
    y, (gradient,) = MODES[mode](
        lambda: value_and_gradients(
            lambda x: layer(x, training=True) / X * tf.stop_gradient(X), []
        )
    )()
    dropped = y.numpy() == 0
    assert 0 < dropped.mean() < 1
    np.testing.assert_array_equal(gradient.numpy() == 0, dropped)


def test_a_loss_of_the_block_is_added_once():
    part, twin = (
        keras.layers.Dense(
            4,
            kernel_regularizer="l2",
            activity_regularizer=keras.regularizers.L2(1.0),
        )
        for _ in range(2)
    )
    layer = wrap(
        Layer(lambda x, noisy, part: part(x * 2.0 if noisy else x), part)
    )
    layer(X)
    twin.build(X.shape)
    twin.set_weights(part.get_weights())
    twin(X * 2.0)
    assert len(layer.losses) == 2
    np.testing.assert_allclose(layer.losses, twin.losses, rtol=1e-5)


def test_stateless_call_uses_the_variables_that_it_is_given():
    layer = wrap(Block())
    layer.build(X.shape)
    weights = [tf.ones(w.shape) for w in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        y, left = layer.stateless_call(
            weights, layer.non_trainable_variables, X
        )
    with tf.GradientTape() as clean_tape:
        clean_tape.watch(weights)
        clean = tf.tanh(X @ weights[0] + weights[1])
    for mine, wanted in zip(
        tape.gradient(y, weights), clean_tape.gradient(clean, weights)
    ):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(left[0], [1, 1])
    np.testing.assert_array_equal(layer.non_trainable_variables[0], [1, 0])


def test_one_inside_another():
    def inner(x, noisy):
        return x**3 if noisy else x**2

    def outer(x, noisy, layer):
        return 10 * layer(x) if noisy else layer(x)

    layer = wrap(Layer(outer, wrap(Layer(inner))))
    x = tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    assert (float(y[0]), float(tape.gradient(y, x)[0])) == (270.0, 6.0)


@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_a_model_as_block_when_a_layer_has_registered_the_keyword(kind):
    model = keras.Sequential([keras.layers.Dense(4), Noise()])
    if kind == "functional":
        x = keras.Input((3,))
        model = keras.Model(x, Noise()(keras.layers.Dense(4)(x)))
    layer = wrap(model)
    _, gradients = value_and_gradients(layer, [])
    with tf.GradientTape() as tape:
        tape.watch(X)
        clean = model(X, noisy=False)
    model.layers[-1].seed_generator.state.assign([1, 0])
    upstream = 2 * model(X)
    wanted = tape.gradient(clean, X, output_gradients=upstream)
    np.testing.assert_allclose(gradients[0], wanted, rtol=1e-5)


def used_only(when):
    def call(x, noisy, a, b):
        return (a if noisy == when else b)(x)

    return Layer(call, keras.layers.Dense(1), keras.layers.Dense(1))


def test_a_weight_used_only_forward_gets_none_and_fit_warns():
    layer = wrap(used_only(True))
    model = compiled(layer)
    with tf.GradientTape() as tape:
        y = layer(X)
    gradients = tape.gradient(y, layer.trainable_weights)
    assert [g is None for g in gradients] == [True, True, False, False]
    with pytest.warns(UserWarning, match="Gradients do not exist .*kernel"):
        model.fit(X, X[:, :1], verbose=0)


def test_where_no_weight_is_reached_the_optimizer_raises():
    layer = wrap(
        Layer(lambda x, noisy, d: d(x) if noisy else x, keras.layers.Dense(3))
    )
    with pytest.raises(ValueError, match="No gradients provided"):
        compiled(layer).fit(X, X, verbose=0)


DIFFERENT = {
    "shape": (lambda x, n: x[:, :1] if n else x, ValueError, r"float32\(8, 1\) .* float32\(8, 3\)"),
    "dtype": (lambda x, n: tf.cast(x, "float16") if n else x, TypeError, "float16.* float32"),
    "structure": (lambda x, n: [x, x] if n else x, ValueError, r"returns \[float32"),
    "integer": (lambda x, n: tf.argmax(x, 1), TypeError, r"int64\(8,\)"),
    "part": (lambda x, n: (x, tf.argmax(x, 1)), TypeError, r"\(float32\(8, 3\), int64\(8,\)\)"),
    "none": (lambda x, n: None, TypeError, "returns None for"),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_block_whose_calls_cannot_be_joined(case):
    call, error, message = DIFFERENT[case]
    layer = wrap(Layer(call))
    layer.block.built = layer.built = True
    with pytest.raises(error, match=message) as caught:
        layer.call(X)
    assert "\n" not in str(caught.value)
    with pytest.raises(error, match="floating-point tensors of the same"):
        wrap(Layer(call))(X)
