"""The messages on the page of symptoms are those of the installed versions."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

PAGE = (Path(__file__).parents[1] / "book" / "symptoms.md").read_text()
# Terms that are one piece of code, of more than three words. "..." is left out.
QUOTES = [
    quote.strip()
    for _, quote in re.findall(r"^(`+)(.+)\1\n: ", PAGE, re.MULTILINE)
    if len(quote.split()) > 3
]

CODE = """
tf.gradients(v * v, v)
---
tf.placeholder
---
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    session.run(tf.gradients(tf.constant(1.0), tf.constant(2.0)))
---
SGD().minimize
---
tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(v * v)
---
tf.keras.optimizers.legacy.SGD()
---
keras.mixed_precision.LossScaleOptimizer(SGD()).get_scaled_loss
---
tape.gradient(v, v)
tape.gradient(v, v)
---
tape.jacobian(y, v, experimental_use_pfor=False)
---
tape.gradient(None, v)
---
with tf.GradientTape() as tape:
    y = tf.unique(tf.stack([v, v]))[0]
tape.gradient(y, v)
---
with tf.Graph().as_default():
    z = tf.constant(3 + 4j)
    tf.gradients(z * z, z)
---
tape.gradient(tf.constant(1.0), v) * 0.1
---
with tf.GradientTape() as tape:
    row = tf.gather(table, [1])
tape.gradient(row, table) * 2
---
tf.autodiff.ForwardAccumulator(keras.Variable(1.0), tf.constant(1.0))
---
tf.function(lambda x: np.exp(x), autograph=False)(one)
---
tf.custom_gradient(lambda x: (x * v, lambda upstream: upstream))(one)
---
with tf.GradientTape() as tape:
    y = times(v, y=one)
tape.gradient(y, v)
---
tf.function(lambda: times(x=one, y=one), autograph=False)()
---
tf.RegisterGradient("Relu")(times)
---
tf.stop_gradient(keras.Input((2,)))
---
SGD().apply([None], [v])
---
optimizer = SGD()
optimizer.build([v, table])
optimizer.apply([one, None], [v, table])
---
inner, outer = (keras.Input((2,)) for _ in range(2))
keras.Model(outer, keras.layers.Dense(1)(inner))
---
optimizer = SGD()
optimizer.build([v])
optimizer.apply([one], [tf.Variable(1.0)])
---
SGD(clipnorm=1.0, clipvalue=1.0)
---
with tf.GradientTape() as tape:
    tape.watch(tf.constant(1))
---
for _ in range(5):
    with tf.GradientTape() as tape:
        y = v * v
    tape.jacobian(y, v)
---
with tf.GradientTape(persistent=True) as tape:
    y = v * v
    tape.gradient(y, v)
"""

# With keras.RematScope, layers are called by keyword inside of fit.
REMAT = """
with keras.RematScope(mode="full"):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
"""


def said(code: str) -> list[str]:
    """Run code and return what it raises, warns of and logs."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    v, one = tf.Variable(2.0), tf.constant(1.0)
    with tf.GradientTape() as tape:
        y = v * v
    names = {
        "keras": keras,
        "np": np,
        "one": one,
        "SGD": keras.optimizers.SGD,
        "table": tf.Variable(tf.zeros([4, 2])),
        "tape": tape,
        "tf": tf,
        "times": tf.custom_gradient(lambda x, y: (x * y, lambda u: (u, u))),
        "v": v,
        "y": y,
    }
    tf.get_logger().addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(code, names)
        except Exception as error:
            messages.append(f"{type(error).__name__}: {error}")
        finally:
            tf.get_logger().removeHandler(handler)
    messages += [f"{w.category.__name__}: {w.message}" for w in caught]
    return [" ".join(message.split()) for message in messages]


@pytest.fixture(scope="module")
def messages():
    return [m for code in CODE.split("---") for m in said(code)]


@pytest.mark.parametrize("quote", QUOTES)
def test_message_is_what_is_said(quote, messages):
    if "absl" in quote:
        pytest.skip("said once, at the import, on some processors")
    pattern = ".*".join(re.escape(part.strip()) for part in quote.split("..."))
    found = [m for m in messages if re.match(pattern, m)]
    assert found, "quote it as the installed versions say it, or mend CODE"


def test_remat_scope_calls_by_keyword():
    (message,) = said(REMAT)
    assert "custom_gradient decorator currently supports keyword" in message


def test_two_variables_silence_tensorflow():
    try:
        version("tensorflow-cpu")
    except PackageNotFoundError:
        pytest.skip("the full package says more")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    code = "import tensorflow as tf; tf.constant(1.0) + 1.0"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout + done.stderr == ""
