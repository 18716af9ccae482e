"""One look for every figure of the book.

Each colour has one meaning through the whole book. Three of them are from the palette
that Okabe and Ito chose to be told apart with any colour vision; the purple is theirs,
darkened, so that all five stand out on white and, turned over, in the dark theme.
Figures add line styles and markers, so that nothing rests on colour alone.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
from cycler import cycler

__all__ = ["COLORS", "use_style"]

COLORS = {
    "forward": "#0072B2",  # values, the forward pass
    "backward": "#D55E00",  # adjoints and gradients, the backward pass
    "right": "#009E73",  # the truth, the form that is right
    "wrong": "#B0468E",  # noise, the form that is wrong
    "plain": "#555555",  # neither
}


def use_style() -> None:
    """Set matplotlib's defaults to the book's figure style, until the kernel ends.

    Figures are 6 by 3.8 inches: lettering of 14 points is then read, at 11 pixels,
    where a phone shows the figure 350 pixels wide.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> use_style()
    >>> plt.rcParams["axes.spines.top"]
    False
    """
    plt.rcParams.update(
        {
            "figure.figsize": (6.0, 3.8),
            "figure.dpi": 160,
            "savefig.dpi": 160,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "white",
            "font.size": 14,
            "axes.titlesize": 14,
            "axes.labelsize": 14,
            "legend.fontsize": 12.5,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.8,
            "lines.linewidth": 2,
            "lines.markersize": 7,
            "axes.prop_cycle": cycler(
                color=list(COLORS.values()),
                linestyle=["-", "--", "-", ":", "-."],
            ),
        }
    )
