"""Sphinx extension: load a live figure's script on the pages that have the figure.

In a Markdown cell a live figure is its still picture inside an element of its own,

    <figure class="live">
    <live-NAME>

    ![What is to be seen.](_static/live/NAME.svg)

    </live-NAME>
    <figcaption>What it shows. On the book's site ... can be changed.</figcaption>
    </figure>

which NAME.js turns into the live one. JupyterLab drops the element and keeps the picture.
The scripts, the style sheet and the pictures lie in `_static/live/`.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx


def load(
    app: Sphinx,
    _page: str,
    _template: str,
    _context: dict,
    doctree: nodes.document | None,
) -> None:
    html = doctree.findall(nodes.raw) if doctree else []
    names = re.findall(r"<live-(\w+)", " ".join(n.astext() for n in html))
    if names:
        app.add_css_file("live/live.css")
        for name in ["live", *dict.fromkeys(names)]:
            app.add_js_file(f"live/{name}.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
