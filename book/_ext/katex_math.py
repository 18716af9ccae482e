"""Sphinx extension: KaTeX sets every formula while the book is built.

A page then needs no script for its formulas, shifts no text when it is opened, and carries
MathML for screen readers. A formula that KaTeX cannot read is a warning, so `make book` fails.
KaTeX itself lies unchanged in `katex/`, without its older font formats.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

KATEX = Path(__file__).parent / "katex"
logger = logging.getLogger(__name__)


def start(app: Sphinx) -> None:
    app.katex = MiniRacer()  # V8; there is no Node to install
    app.katex.eval((KATEX / "katex.min.js").read_text(encoding="utf-8"))
    app.config.html_static_path.append(str(KATEX))
    app.add_css_file("katex.min.css")


def stop(app: Sphinx, _exception: Exception | None) -> None:
    app.katex.close()  # an open engine keeps Python 3.13 from ending


def html(translator, node: nodes.Node, source: str, display: bool) -> str:
    app = translator.builder.app
    macros = dict(app.config.katex_macros)
    options = {
        "displayMode": display,
        "throwOnError": True,
        "strict": "error",
        "macros": macros,
    }
    try:
        return app.katex.call("katex.renderToString", source, options)
    except Exception as error:  # whatever V8 reports
        reason = " ".join(str(error).split())[:200]
        logger.warning(
            "KaTeX cannot read %r: %s", source, reason, location=node
        )
        return f"<code>{escape(source)}</code>"


def join_punctuation(_app: Sphinx, doctree: nodes.document, _name: str) -> None:
    """Set what must stay on a formula's line, as a full stop, with the formula."""
    for node in list(doctree.findall(nodes.math)):
        parent, at = node.parent, node.parent.index(node)
        before = parent[at - 1] if at else None
        after = parent[at + 1] if at + 1 < len(parent) else None
        source = node.astext()
        if isinstance(after, nodes.Text):
            mark = re.match(r"[.,;:?!)]*", after)[0]
            parent[at + 1] = nodes.Text(after[len(mark) :])
            source += f"\\text{{{mark}}}" if mark else ""
        if isinstance(before, nodes.Text) and before.endswith("("):
            parent[at - 1] = nodes.Text(before[:-1])
            source = r"\text{(}" + source
        node[:] = [nodes.Text(source)]


def visit_inline(self, node: nodes.math) -> None:
    self.body.append(
        f'<span class="math">{html(self, node, node.astext(), False)}</span>'
    )
    raise nodes.SkipNode


def visit_display(self, node: nodes.math_block) -> None:
    # Sphinx numbers a formula as a whole; the starred environments do not number their lines.
    source = re.sub(
        r"\\(begin|end)\{(align|gather|equation)\}", r"\\\1{\2*}", node.astext()
    )
    self.body.append(self.starttag(node, "div", CLASS="math math-display"))
    # The theme's script makes what has this class a stop of the keyboard where it scrolls.
    self.body.append('<div class="pst-scrollable-table-container">')
    self.body.append(html(self, node, source.strip(), True) + "</div>")
    if node["number"]:
        self.body.append(
            f'<span class="eqno">({get_node_equation_number(self, node)})'
        )
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("katex_macros", {}, "env")
    app.add_html_math_renderer(
        "katex", (visit_inline, None), (visit_display, None)
    )
    app.connect("doctree-resolved", join_punctuation)
    app.connect("builder-inited", start)
    app.connect("build-finished", stop)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
