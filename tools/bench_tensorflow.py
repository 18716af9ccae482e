"""Rows of `make bench` on what the book adds to TensorFlow and Keras."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import keras
import tensorflow as tf
from bench_measure import Line, agree, in_turns, ratios, report

from utils.diagnose import explain_gradient
from utils.keras_layers import ForwardBackward
from utils.two_expressions import forward_backward

TENSORFLOW = f"tensorflow {tf.__version__}"
KERAS = f"keras {keras.__version__}"


def one_line(forward, backward):
    """The one-line trick."""
    return tf.stop_gradient(forward) + (backward - tf.stop_gradient(backward))


@tf.custom_gradient
def custom_gradient(forward, backward):
    """The same, as a custom gradient of two arguments."""
    return tf.identity(forward), lambda upstream: (None, upstream)


def gradient_through(join):
    """Return a function that rounds forward, and says what comes back."""

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(join(tf.round(x), tf.sin(x)) ** 2)
        return y, tape.gradient(y, x)

    return gradient


def join():
    x = tf.random.Generator.from_seed(0).normal((128, 256))
    joins = {
        "forward_backward": forward_backward,
        f"the one-line trick, {TENSORFLOW}": one_line,
        f"tf.custom_gradient, {TENSORFLOW}": custom_gradient,
    }
    lines = []
    for mode, most in [("in a graph", 1.05), ("eager", 1.5)]:
        functions = {k: gradient_through(f) for k, f in joins.items()}
        if mode == "in a graph":
            functions = {k: tf.function(f) for k, f in functions.items()}
        within = agree({k: f(x) for k, f in functions.items()}, 1e-5)
        calls = [lambda f=f: f(x)[1].numpy() for f in functions.values()]
        ours, *times = in_turns(*calls)
        what = f"value and gradient of forward_backward, 128 by 256, {mode}"
        for name, taken in zip(list(joins)[1:], times):
            lines.append(Line(what, name, ratios(ours, taken), most, within))
    return lines


class Block(keras.layers.Layer):
    """Three dense layers, whose results are rounded on request."""

    def __init__(self, width):
        super().__init__()
        self.parts = [
            keras.layers.Dense(width, activation="tanh") for _ in range(3)
        ]

    def call(self, x, rounded=False):
        for part in self.parts:
            x = part(x)
            x = tf.round(8 * x) / 8 if rounded else x
        return x


class ByHand(keras.layers.Layer):
    """Two forward passes, and one backward pass."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def call(self, x):
        forward = self.block(x, rounded=True)
        return one_line(forward, self.block(x, rounded=False))


def wrapped(block):
    return ForwardBackward(block, {"rounded": True}, {"rounded": False})


WHY = (
    "the result of forward_backward is a call of a function, which hands its two "
    "arguments on to the way back. They are counted, but are the same memory as "
    "the result and as what the block keeps: see the peak memory"
)
LAYERS = {"ours": wrapped, "by hand": ByHand}


def training(kind, batch, width):
    """Return a model, a training step, and the loss that the step lowers."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [LAYERS[kind](Block(width)), keras.layers.Dense(8)]
    )
    x = tf.random.Generator.from_seed(0).normal((batch, width))
    model(x[:1])
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function
    def loss():
        return tf.reduce_mean(model(x) ** 2)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            y = tf.reduce_mean(model(x) ** 2)
        gradients = tape.gradient(y, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return y

    return model, step, loss


def kept(model, loss) -> tuple[int, int]:
    """Count the tensors, and their numbers, that wait for the way back.

    Where a gradient is asked of a call in a graph, TensorFlow makes them
    outputs of the call.
    """
    found = []

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            y = loss()
        tape.gradient(y, model.trainable_variables)
        found.extend(output.shape for output in y.op.outputs)

    gradient.get_concrete_function()
    return len(found), sum(shape.num_elements() or 0 for shape in found)


def keras_layer():
    trained = {kind: training(kind, 256, 256) for kind in LAYERS}
    counts = {k: kept(model, f) for k, (model, _, f) in trained.items()}
    for _, step, _ in trained.values():
        step()
    weights = {k: model.get_weights() for k, (model, _, _) in trained.items()}
    within = agree(weights, 1e-5)
    steps = [lambda f=f: f().numpy() for _, f, _ in trained.values()]
    what = "training step of the wrapper layer, three dense layers of {0}, batch {0}"
    beside = (
        f"two forward passes and one backward by hand, {KERAS}, {TENSORFLOW}"
    )
    (n, size), (hand_n, hand_size) = counts.values()
    times = ratios(*in_turns(*steps))
    return [
        Line(what.format(256), beside, times, 1.15, within),
        Line(
            "tensors that it keeps",
            f"{hand_n} by hand",
            [n / hand_n],
            1.15,
            why=WHY,
        ),
        Line(
            "numbers in them",
            f"{hand_size} by hand",
            [size / hand_size],
            1.15,
            why=WHY,
        ),
        *memory(),
    ]


def peak_of(kind):
    """Return the peak memory of this process, and what two steps add to it."""
    _, step, _ = training(kind, 4096, 512)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        step()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return [after, after - before]


def memory() -> list[Line]:
    """Train in processes of their own, for a peak does not come down again."""
    peaks = {}
    for kind in LAYERS:
        command = [sys.executable, __file__, "peak", kind]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        peaks[kind] = json.loads(done.stdout)
    (whole, ours), (hand_whole, hand) = peaks.values()
    what = (
        "peak memory of the process, two training steps, width 512, batch 4096"
    )
    return [
        Line(what, "by hand", [whole / hand_whole], 1.15),
        Line("what these steps add to it", "by hand", [ours / hand], 1.15),
    ]


def model_of(ops: int):
    """Return a function of so many ops, not counting constants."""

    def f(x):
        for _ in range(ops // 2):
            x = tf.sin(x) * 1.01
        return x

    return f


def explain():
    x = tf.constant([0.5, 1.0])
    half, whole = model_of(500), model_of(1000)

    def by_tape():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = whole(x)
        return tape.gradient(y, x)

    found = explain_gradient(whole, x)["x"].gradient
    within = agree({"ours": found, "tape": by_tape()}, 1e-5)
    halves, wholes, tapes = in_turns(
        lambda: explain_gradient(half, x),
        lambda: explain_gradient(whole, x),
        by_tape,
        turns=3,
    )
    what = "explain_gradient on a model of {} ops"
    once = f"one eager gradient of the same model, {TENSORFLOW}"
    return [
        Line(what.format(1000), once, ratios(wholes, tapes), None, within),
        Line(what.format(1000), "the same on 500", ratios(wholes, halves), 2.5),
    ]


if __name__ == "__main__":
    if sys.argv[1] == "peak":
        print(json.dumps(peak_of(sys.argv[2])))
    else:
        report(
            {
                "join": join,
                "keras": keras_layer,
                "explain": explain,
            }
        )
