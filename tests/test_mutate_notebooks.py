"""tools/mutate_notebooks.py makes the mutations that it says, and tells which survive."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

TOOL = Path(__file__).parents[1] / "tools" / "mutate_notebooks.py"
tool = runpy.run_path(str(TOOL))


def mutations(source: str) -> set[tuple[str, str]]:
    return {(e.kind, e.apply(source)) for e in tool["edits"](source)}


@pytest.mark.parametrize(
    "kind, before, after",
    [
        ("sign", "y = -x", "y = x"),
        ("sign", "y = (a) + (b)", "y = (a) - (b)"),
        ("sign", "y = a - b  # less", "y = a + b  # less"),
        ("sign", "y += 2", "y -= 2"),
        ("constant", "h = 1e-5", "h = 1.1e-05"),
        ("constant", "h = 2.0", "h = 1.8"),
        ("constant", "h = 0.0", "h = 0.1"),
        ("constant", "h = 10.0", "h = 11.0"),
        ("constant", "n = 1_000", "n = 900"),
        ("constant", "n = x[0]", "n = x[-1]"),
        ("constant", "z = 1j", "z = 1.1j"),
        ("constant", "'é'; n = 3", "'é'; n = 4"),
        ("swap", "y = (a - b) / c", "y = c / ((a - b))"),
        ("swap", "y = a @ b", "y = b @ a"),
        ("swap", "y = x**2", "y = 2 ** x"),
        ("swap", "y = f(a, g(b), c)", "y = f(g(b), a, c)"),
        ("sibling", "y = tf.sin(x)", "y = tf.cos(x)"),
        ("sibling", "y = tf.math.log(x)", "y = tf.math.exp(x)"),
        ("sibling", "y = tf.maximum(a, b)", "y = tf.minimum(a, b)"),
        ("sibling", "y = tf.reduce_sum(x)", "y = tf.reduce_mean(x)"),
        ("sibling", "y = x.mean()", "y = x.sum()"),
        ("sibling", "y = max(x)", "y = min(x)"),
        ("sibling", "y = a * b", "y = a / b"),
        ("sibling", "y = a / b", "y = a * b"),
        ("sibling", "y = x > 0", "y = x < 0"),
        ("sibling", "w.assign_sub(g)", "w.assign_add(g)"),
        ("stop", "y = tf.stop_gradient(a - b) + b", "y = (a - b) + b"),
        ("stop", "y = sg(x)", "y = (x)"),
        ("stop", "g(z, x, stop_gradients=[a])", "g(z, x)"),
        ("factor", "y = c - a * (b)", "y = c - a"),
        ("factor", "y = c - a * (b)", "y = c - (b)"),
        ("factor", "y = (a + b) / 2", "y = (a + b)"),
    ],
)
def test_makes_a_mutation(kind, before, after):
    assert (kind, after) in mutations(before)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np",
        "print(f'{2 * x:.4f}')",
        "ax.plot(2 * x, np.sin(x), linewidth=1.5)",
        "fig, ax = plt.subplots(figsize=(6, 4.8))",
        "np.allclose(a, b, rtol=1e-6)",
        "tf.random.set_seed(3)",
        "np.random.default_rng(3)",
        "layer(seed=3)",
        "for seed in (1, 2, 3): pass",
        "x.round(4)",
        "textwrap.fill(text, 64)",
        "print(a, b)",
        "isinstance(a, float)",
        "f(*a, b)",
        "y = maximum",
    ],
)
def test_leaves_alone_what_does_not_count(source):
    assert mutations(source) == set()


def test_names_the_lines_that_change():
    source = "for x in y:\n    z = f(\n        a,\n        b,\n    )\n"
    (edit,) = tool["edits"](source)
    assert edit.lines(source) == ("a, b,", "b, a,")


def test_compares_values_to_the_last_bit():
    import numpy as np
    import tensorflow as tf

    class Page:  # as if it were defined in a notebook
        def __init__(self, value):
            self.value, self.me = value, self

    Page.__module__ = "__main__"
    near = np.nextafter(1.0, 2.0)
    same = tool["fingerprint"]
    for make in (
        float,
        np.asarray,
        lambda x: {"a": [(x,)]},
        lambda x: {x},
        lambda x: tf.constant(x, tf.float64),
        lambda x: tf.Variable(x, dtype=tf.float64),
        Page,
    ):
        assert same(make(1.0)) == same(make(1.0))
        assert same(make(1.0)) != same(make(near))
    assert same(1) != same(1.0)
    assert same(lambda: 1) == same(lambda: 2), "what it does is compared"


def test_tells_what_is_noticed(tmp_path):
    def cell(source, text="", count=1, **metadata):
        outputs = [new_output("stream", text=text)] if text else []
        return new_code_cell(
            source,
            outputs=outputs,
            execution_count=count,
            metadata=metadata,
        )

    def path(name, text):
        notebook = new_notebook()
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
        }
        notebook.cells = [
            cell("shown = -len('abc')\nhidden = -len('a')\nunread = -len('b')"),
            cell("drawn = -1", tags=["hide-input"]),
            cell("print(shown)\ntwice = [hidden, hidden]", text),
        ]
        nbformat.write(notebook, tmp_path / name)
        return str(tmp_path / name)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, str(TOOL), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    done = run(path("sound.ipynb", "-3\n"))
    assert done.returncode == 1, done.stderr
    assert "| all | 1 | 0 | 1 | 1 |" in done.stdout
    assert (
        "sound, sign: `hidden = -len('a')` became `hidden = len('a')`"
        in done.stdout
    )
    assert "and altered hidden." in done.stdout

    done = run(path("stale.ipynb", "3\n"))
    assert done.returncode == 1
    assert "stale fails as it is" in done.stderr
