"""Each term of the glossary is linked where a chapter first uses it."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).parents[1] / "book"
CHAPTERS = sorted(BOOK.glob("*.ipynb"))

# What is no prose, or cannot hold a link.
NO_PROSE = re.compile(
    r"""
      ^```.*?^```$                        # fenced blocks
    | ^(?:\#|:::|:\w+:|\(\S+\)=)[^\n]*    # headings, directives, labels
    | \$\$.*?\$\$ | \$[^$]+\$             # formulas
    | (?:\{[\w:]+\})?`[^`]*`              # roles and code
    | \[[^]]*\]\([^)]*\)                  # links
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
LINK = re.compile(r"\{term\}`(?:[^`<]*<)?([^`<>]+)>?`")


def glossary() -> list[str]:
    text = (BOOK / "glossary.md").read_text()
    block = re.search(r"^:::\{glossary\}\n(.*?)^:::$", text, re.M | re.S)[1]
    return re.findall(r"^\S.*$", block, re.MULTILINE)


TERMS = glossary()
# "kernel (of an op)" has a word that means other things as well, so nobody
# can say at which of its uses the link belongs.
CLEAR = [term for term in TERMS if not term.endswith(")")]


def read(chapter: Path) -> str:
    cells = nbformat.read(chapter, as_version=4).cells
    return "\n\n".join(c.source for c in cells if c.cell_type == "markdown")


def links(text: str) -> dict[str, int]:
    """Return each term that is linked, with the place of its first link."""
    found = [
        (" ".join(m[1].split()).lower(), m.start()) for m in LINK.finditer(text)
    ]
    return dict(reversed(found))


def first_use(term: str, text: str) -> re.Match | None:
    """Find a term in the prose, also as a plural, a capital or over a break."""
    prose = NO_PROSE.sub(lambda m: " " * len(m[0]), text)
    words = r"\s+".join(map(re.escape, term.split()))
    return re.search(rf"(?<![\w-]){words}s?(?![\w-])", prose, re.IGNORECASE)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_first_use_of_a_term_is_a_link(chapter):
    text = read(chapter)
    linked = links(text)
    missing = []
    for term in CLEAR:
        use = first_use(term, text)
        if use and use.start() < linked.get(term.lower(), len(text)):
            line = text[: use.end()].splitlines()[-1][-40:]
            target = "" if use[0] == term else f" <{term}>"
            missing.append(f"...{line}: {{term}}`{use[0]}{target}`")
    assert not missing, "link at the first use:\n" + "\n".join(missing)


def test_every_term_is_in_order_and_linked_from_a_chapter():
    assert sorted(TERMS, key=str.lower) == TERMS, "sort book/glossary.md"
    linked = set().union(*(links(read(chapter)) for chapter in CHAPTERS))
    idle = [term for term in TERMS if term.lower() not in linked]
    assert not idle, f"define in a chapter, and link, or delete: {idle}"
