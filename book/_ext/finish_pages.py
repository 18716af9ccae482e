"""Sphinx extension: what the theme and its companions leave undone on a page.

* A description, from the page's first paragraph, for those who search.
* Figures as WebP without loss, a third of the size of matplotlib's PNG, with
  their width and height, so that nothing moves when they arrive.
* ARIA attributes that are wrong, each with where it comes from.
* Scripts that do not hold up the page that they are for.
* singlehtml knows the nodes that extensions registered for "html" alone.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx

WRONG_ARIA = [
    # docutils' citations: a list may not hold what is no list item, and the
    # role of an entry is deprecated.
    (' role="list" class="citation-list"', ' class="citation-list"'),
    (' role="doc-biblioentry"', ""),
    # myst-nb's summary: a label that does not contain the words it shows.
    (' aria-label="Toggle hidden content"', ""),
]


def share_html_nodes(app: Sphinx) -> None:
    # An extension that names singlehtml for one of its nodes (sphinx-exercise)
    # hides there every node that another registered for "html" (sphinx-proof).
    handlers = app.registry.translation_handlers
    if app.builder.name == "singlehtml" and "singlehtml" in handlers:
        handlers["singlehtml"] = handlers["html"] | handlers["singlehtml"]


def shrink_figures(app: Sphinx, doctree: nodes.document) -> None:
    """Lead each image that a cell stored to a copy that is WebP."""
    for node in doctree.findall(nodes.image):
        path = Path(app.srcdir, node["uri"].lstrip("/"))
        if path.suffix == ".png" and "jupyter_execute" in path.parts:
            Image.open(path).save(path.with_suffix(".webp"), lossless=True)
            node["uri"] = node["uri"].removesuffix("png") + "webp"


def size(path: Path) -> tuple[int, int]:
    if path.suffix != ".svg":
        return Image.open(path).size
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', path.read_text("utf-8"))
    return round(float(box[1])), round(float(box[2]))


def add_sizes(app: Sphinx, body: str) -> str:
    """Give each figure the width and height, in pixels, of its file."""
    sources = {name: uri for uri, name in app.builder.images.items()}

    def sized(tag: re.Match) -> str:
        width, height = size(Path(app.srcdir, sources[tag[1]]))
        return f'{tag[0]} width="{width}" height="{height}"'

    return re.sub(r'<img [^>]*src="[^"]*/([^"/]+\.(webp|svg))"', sized, body)


def defer(script):
    # An inline script of each page needs this one.
    if not script.filename or "documentation_options" in script.filename:
        return script
    attributes = {"defer": "defer"} | script.attributes
    return type(script)(script.filename, priority=script.priority, **attributes)


def defer_scripts(
    app: Sphinx, pagename, templatename, context, doctree
) -> None:
    """Let the page be shown before the scripts in its head have come."""
    if pagename != "search":  # has scripts in its body, which need them
        context["script_files"] = list(map(defer, context["script_files"]))


def finish(app: Sphinx, pagename, templatename, context, doctree) -> None:
    if doctree:
        paragraph = next(iter(doctree.findall(nodes.paragraph)), None)
        text = " ".join(paragraph.astext().split()) if paragraph else ""
        if len(text) > 160:
            text = text[:159].rsplit(" ", 1)[0] + " …"
        tag = f'<meta name="description" content="{escape(text)}" />'
        context["metatags"] = context.get("metatags", "") + tag
    body = context.get("body", "")
    for wrong, right in WRONG_ARIA:
        body = body.replace(wrong, right)
    # sphinx-exercise puts the space between the two into the link.
    body = re.sub(r"Solution to(<a [^>]*>) ", r"Solution to \1", body)
    context["body"] = add_sizes(app, body)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", share_html_nodes)
    # Before Sphinx collects the images of a page, at 500.
    app.connect("doctree-read", shrink_figures, priority=400)
    app.connect("html-page-context", finish)
    app.connect(
        "html-page-context", defer_scripts, priority=900
    )  # all are there
    return {"parallel_read_safe": True, "parallel_write_safe": True}
