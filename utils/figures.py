"""One look for every figure of the book.

The colours are five of the eight that Okabe and Ito chose to be told apart with any
colour vision; each has one meaning through the whole book, and a line style and a marker
of its own, so that nothing rests on colour alone. They keep their distance from the
ground when the site turns a figure over for the dark theme.
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

    Figures are 6.4 by 3.6 inches at 160 dots an inch: lettering of 12 points is still
    read where a phone shows the figure 360 pixels wide.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> use_style()
    >>> plt.rcParams["axes.spines.top"]
    False
    """
    plt.rcParams.update(
        {
            "figure.figsize": (6.4, 3.6),
            "figure.dpi": 160,
            "savefig.dpi": 160,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "white",
            "font.size": 12,
            "axes.titlesize": 12,
            "axes.labelsize": 12,
            "legend.fontsize": 11,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.8,
            "lines.linewidth": 2,
            "lines.markersize": 6,
            "axes.prop_cycle": cycler(
                color=list(COLORS.values()),
                linestyle=["-", "--", "-", ":", "-."],
            ),
        }
    )
