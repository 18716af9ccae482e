"""Draw the three pictures of the first page: three ways, one slope.

    python tools/draw_first_page.py

Each picture shows its way of finding the slope of f(x, y) = sin x - y**3 along x
at (3, 5), and the number that the book's own code found.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from utils.figures import COLORS, use_style
from utils.graphs import draw, from_trace
from utils.numerical import derivative
from utils.reverse_mode import trace
from utils.symbolic import Symbol, differentiate, evaluate

FOLDER = Path(__file__).parents[1] / "book" / "_static" / "first-page"
X, Y = 3.0, 5.0


def f(x, y):
    return np.sin(x) - y**3


def measure(ax: plt.Axes) -> None:
    """A difference quotient, large enough to be seen, and a small one."""
    slope = derivative(lambda x: f(x, Y), X)
    x, h = np.linspace(1.4, 4.6, 100), 1.0
    ends = np.array([X - h, X + h])
    ax.plot(x, f(x, Y), color=COLORS["plain"])
    ax.plot(ends, f(ends, Y), "o--", color=COLORS["backward"])
    ax.plot(x, f(X, Y) + slope * (x - X), "-", color=COLORS["right"])
    ax.plot(X, f(X, Y), "o", color=COLORS["right"])
    ax.set(xticks=[X - h, X, X + h], yticks=[])
    ax.set_xticklabels(["$x - h$", "$x$", "$x + h$"])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.grid(False)
    say(ax, slope)


def derive(ax: plt.Axes) -> None:
    """The formula, its derivative, and the value of that."""
    x, y = Symbol("x"), Symbol("y")
    slope = differentiate(f(x, y), x)
    assert str(slope) == "cos(x)"
    lines = [r"$f = \sin x - y^3$", r"$\frac{\partial f}{\partial x} = \cos x$"]
    arrow = {"arrowstyle": "-|>", "color": COLORS["plain"], "linewidth": 1.5}
    for line, height in zip(lines, (0.86, 0.36)):
        ax.text(0.5, height, line, fontsize=22, ha="center", va="center")
    ax.annotate("", (0.5, 0.5), (0.5, 0.74), arrowprops=arrow)
    ax.text(0.55, 0.62, "the rules", color=COLORS["plain"], va="center")
    ax.axis("off")
    say(ax, evaluate(slope, x=X, y=Y))


def propagate(ax: plt.Axes) -> None:
    """The graph, with the adjoint of each node."""
    nodes = trace(f, (X, Y))
    draw(from_trace(nodes), ax, direction="down", show=["adjoint"])
    say(ax, nodes[0].adjoint)


def say(ax: plt.Axes, slope: float) -> None:
    text = f"{slope:.4f}".replace("-", "\N{MINUS SIGN}")
    ax.figure.suptitle(text, y=0.08, color=COLORS["right"], fontsize=20)


def main() -> None:
    use_style()
    plt.rcParams["svg.hashsalt"] = "first page"  # the same file each time
    FOLDER.mkdir(exist_ok=True)
    for picture in (measure, derive, propagate):
        fig, ax = plt.subplots(figsize=(3.2, 2.9))
        fig.get_layout_engine().set(rect=(0, 0.13, 1, 0.87))
        picture(ax)
        path = FOLDER / f"{picture.__name__}.svg"
        fig.savefig(path, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
