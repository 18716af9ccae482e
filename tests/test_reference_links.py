"""Each helper that a chapter imports is linked to the reference of `utils`."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).parents[1] / "book"
CHAPTERS = sorted(BOOK.glob("*.ipynb"))
REFERENCE = (BOOK / "utils.md").read_text()
# How figures are drawn is no subject of a chapter.
DRAWING = {"utils.figures", "utils.graphs"}
MODULES = set(re.findall(r"automodule:: (\S+)", REFERENCE)) - DRAWING

IMPORT = re.compile(r"^from (utils[.\w]*) import (\([^)]*\)|.*)$", re.MULTILINE)
LINK = re.compile(r"\{(?:func|class|mod)\}`(?:[^`<]*<)?~?(utils\.[\w.]+)>?`")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_what_is_imported_is_linked(chapter):
    cells = nbformat.read(chapter, as_version=4).cells
    code = "\n".join(c.source for c in cells if c.cell_type == "code")
    prose = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    linked = set(LINK.findall(prose))
    missing = []
    for origin, names in IMPORT.findall(code):
        for name in (f"{origin}.{name}" for name in re.findall(r"\w+", names)):
            module = ".".join(name.split(".")[:2])
            if module in MODULES and not {module, name} & linked:
                missing.append(name)
    assert not missing, f"link in the prose, it or its module: {missing}"
