"""Rows of `make bench` on the engines that are made of NumPy."""

from __future__ import annotations

import time

import autograd
import autograd.numpy
import numpy as np
from autograd.differential_operators import make_jvp
from bench_measure import Line, agree, in_turns, peer, ratios, report
from micrograd.engine import Value
from threadpoolctl import threadpool_info

from utils import forward_mode, reverse_mode

RNG = np.random.default_rng(0)
AUTOGRAD = peer("autograd")


def network(np, x, one_hot):
    """Return the loss of a two-layer network, written for this NumPy."""

    def loss(W1, b1, W2, b2):
        hidden = np.tanh(x @ W1 + b1)
        logits = hidden @ W2 + b2
        logits = logits - np.max(logits, axis=1, keepdims=True)
        sums = np.sum(np.exp(logits), axis=1, keepdims=True)
        return -np.sum(one_hot * (logits - np.log(sums))) / len(x)

    return loss


def by_hand(x, one_hot, W1, b1, W2, b2):
    """The gradient of `network`, as one writes it without an engine."""
    hidden = np.tanh(x @ W1 + b1)
    logits = hidden @ W2 + b2
    e = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    d_logits = (e / np.sum(e, axis=1, keepdims=True) - one_hot) / len(x)
    d_hidden = d_logits @ W2.T * (1 - hidden**2)
    d_W1, d_W2 = x.T @ d_hidden, hidden.T @ d_logits
    return d_W1, np.sum(d_hidden, axis=0), d_W2, np.sum(d_logits, axis=0)


def blas() -> str:
    """Say which kernel multiplies NumPy's matrices, on how many threads."""
    for library in threadpool_info():
        if "numpy" in library["filepath"]:
            kernel, threads = library["architecture"], library["num_threads"]
            return f"OpenBLAS kernel {kernel}, threads: {threads}"
    return "another library than OpenBLAS"


KEPT = (
    "the record keeps all values and adjoints until the walk is over. So much is "
    "freed at once that the C library hands memory back to the system, and asks "
    "for it again in the next call; by hand, memory is used again"
)


def reverse():
    x = RNG.normal(size=(128, 784))
    one_hot = np.eye(10)[RNG.integers(10, size=128)]
    sizes = [(784, 256), (256,), (256, 10), (10,)]
    weights = [RNG.normal(scale=1 / 16, size=size) for size in sizes]
    loss = network(np, x, one_hot)
    peers_loss = network(autograd.numpy, x, one_hot)
    theirs = autograd.grad(peers_loss, argnum=(0, 1, 2, 3))
    functions = {
        "ours": lambda: reverse_mode.gradient(loss, *weights),
        "autograd": lambda: theirs(*weights),
        "by hand": lambda: by_hand(x, one_hot, *weights),
    }
    within = agree({k: f() for k, f in functions.items()}, 1e-12)
    forward = lambda: loss(*weights)  # noqa: E731
    ours, autograds, hand, once = in_turns(*functions.values(), forward)
    what = "gradient of a network, 784-256-10, cross-entropy, batch 128"
    how = f"NumPy by hand; {blas()}"
    return [
        Line(what, AUTOGRAD, ratios(ours, autograds), 1.0, within),
        Line(what, how, ratios(ours, hand), 1.3, within, why=KEPT),
        Line(what, "the network forward", ratios(ours, once), 4.0),
    ]


def expression(a, b, relu):
    """The expression of micrograd's README."""
    c = a + b
    d = a * b + b**3
    c = c + c + 1
    c = c + 1 + c + (-a)
    d = d + d * 2 + relu(b + a)
    d = d + 3 * d + relu(b - a)
    f = (c - d) ** 2
    return f / 2.0 + 10.0 / f


def scalar():
    def ours():
        return reverse_mode.gradient(
            lambda a, b: expression(a, b, lambda x: np.maximum(x, 0)),
            -4.0,
            2.0,
        )

    def theirs():
        a, b = Value(-4.0), Value(2.0)
        expression(a, b, Value.relu).backward()
        return a.grad, b.grad

    within = agree({"ours": ours(), "micrograd": theirs()}, 1e-14)
    times = in_turns(ours, theirs)
    what = "gradient of the 25 operations on numbers in micrograd's README"
    return [Line(what, peer("micrograd"), ratios(*times), 2.0, within)]


def straight(n: int):
    """Return a function whose graph is a chain of n operations."""

    def f(x):
        for _ in range(n):
            x = x * 0.999999
        return x

    return f


MANY = (
    "Python's garbage collector walks over all nodes whenever their number has "
    "grown by a quarter, which 10,000 are too few for, and a million nodes do "
    "not fit in the processor's caches. That is a step and no slope: from "
    "100,000 nodes on the time per node hardly grows"
)


def chain():
    counts = [10_000, 100_000, 1_000_000]
    chains = {n: straight(n) for n in counts}
    for n, f in chains.items():
        slope = reverse_mode.gradient(f, 1.0)
        within = agree({"ours": slope, "true": 0.999999**n}, 1e-9)
    few = chains[counts[0]]
    try:
        few(Value(1.0)).backward()
        raise AssertionError("micrograd runs a long chain: measure it")
    except RecursionError:
        pass
    theirs = autograd.grad(few)
    agree({"true": 0.999999 ** counts[0], "autograd": theirs(1.0)}, 1e-9)
    functions = [
        lambda f=f: reverse_mode.gradient(f, 1.0) for f in chains.values()
    ]
    *times, autograds = in_turns(
        *functions,
        lambda: theirs(1.0),
        turns=4,
        seconds=0.5,
        clock=time.process_time,  # a turn lasts long, other programs come by
    )
    per_node = [np.divide(t, n) for t, n in zip(times, counts)]
    what = "gradient of a chain of {:,} nodes, processor time per node"
    return [
        Line(
            what.format(1_000_000),
            "the same of 10,000 (micrograd runs neither: RecursionError)",
            (per_node[2] / per_node[0]).tolist(),
            1.2,
            within,
            why=MANY,
        ),
        Line(
            what.format(1_000_000),
            "the same of 100,000",
            (per_node[2] / per_node[1]).tolist(),
            1.2,
            within,
            why=MANY,
        ),
        Line(
            what.format(10_000),
            AUTOGRAD,
            ratios(times[0], autograds),
            None,
            within,
        ),
    ]


def layer(np, A):
    """Return a function of as many inputs and outputs as A has columns and rows."""
    return lambda x: np.tanh(A @ np.sin(x))


def forward_jacobian_of_autograd(f, x):
    columns = make_jvp(f)(x)
    return np.stack([columns(e)[1] for e in np.eye(x.size)], axis=-1)


def forward_jacobian_of_tensorflow(tf, A, x):
    """Column by column, in eager mode."""
    A, x = tf.constant(A), tf.constant(x)
    columns = []
    for e in tf.eye(x.shape[0], dtype=x.dtype):
        with tf.autodiff.ForwardAccumulator(x, e) as accumulator:
            y = tf.tanh(tf.linalg.matvec(A, tf.sin(x)))
        columns.append(accumulator.jvp(y))
    return tf.stack(columns, axis=-1)


def forward():
    import tensorflow as tf  # here, for it takes seconds

    lines = []
    for n, m in [(1, 100), (100, 1)]:
        A, x = RNG.normal(size=(m, n)), RNG.normal(size=n)
        f, theirs = layer(np, A), layer(autograd.numpy, A)
        functions = {
            "ours": lambda f=f, x=x: forward_mode.jacobian(f, x),
            AUTOGRAD: lambda f=theirs, x=x: forward_jacobian_of_autograd(f, x),
            f"tensorflow {tf.__version__}, ForwardAccumulator, eager": (
                lambda A=A, x=x: forward_jacobian_of_tensorflow(tf, A, x)
            ),
        }
        within = agree({k: f() for k, f in functions.items()}, 1e-12)
        ours, *times = in_turns(*functions.values())
        what = f"forward-mode Jacobian, inputs: {n}, outputs: {m}"
        for name, taken in zip(list(functions)[1:], times):
            most = 1.0 if name == AUTOGRAD else None
            lines.append(Line(what, name, ratios(ours, taken), most, within))
    return lines


def crossing():
    inputs, logs = [1, 21, 41, 61, 81, 100], []
    for n in inputs:
        A, x = RNG.normal(size=(101 - n, n)), RNG.normal(size=n)
        f = layer(np, A)
        pair = [
            lambda f=f, x=x: forward_mode.jacobian(f, x),
            lambda f=f, x=x: reverse_mode.jacobian(f, x),
        ]
        answers = {"forward": pair[0](), "reverse": pair[1]()}
        within = agree(answers, 1e-12)
        logs.append(np.log(ratios(*in_turns(*pair, turns=15))))
    costs = [np.exp(logs[i]).tolist() for i in (0, -1)]
    crossings = [np.interp(0, turn, inputs) for turn in zip(*logs)]
    what = "Jacobian in forward mode, inputs: {}, outputs: {}"
    beside = "the same in reverse mode"
    return [
        Line(what.format(1, 100), beside, costs[0], None, within),
        Line(what.format(100, 1), beside, costs[1], None, within),
        Line(
            "inputs, of 101 inputs and outputs, where both modes cost the same",
            beside,
            crossings,
            None,
            within,
            unit="inputs",
        ),
    ]


if __name__ == "__main__":
    report(
        {
            "reverse": reverse,
            "scalar": scalar,
            "chain": chain,
            "forward": forward,
            "crossing": crossing,
        }
    )
