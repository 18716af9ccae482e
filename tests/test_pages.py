"""The pages together: contents, citations, links, commands, the helper package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
NOTEBOOKS = sorted(BOOK.glob("*.ipynb"))
MODULES = {path.stem: path.read_text() for path in ROOT.glob("utils/*.py")}
GUIDES = ["README.md", "CONTRIBUTING.md"]


def cells(kind):
    """Of each page of the book the Markdown, or of each chapter the code."""
    found = {}
    for path in NOTEBOOKS:
        found[path.name] = "\n".join(
            cell.source
            for cell in nbformat.read(path, as_version=4).cells
            if cell.cell_type == kind
            and "remove-cell" not in cell.metadata.get("tags", [])
        )
    if kind == "markdown":
        found |= {path.name: path.read_text() for path in BOOK.glob("*.md")}
    return found


# Each check takes contents and lists what is wrong with them.


def not_listed(toc, pages):
    """Pages that the contents do not list, list twice, or list in vain."""
    listed = [toc["root"]]
    for part in toc["parts"]:
        listed += [chapter["file"] for chapter in part["chapters"]]
    return sorted(
        page
        for page in {*listed, *pages}
        if listed.count(page) != pages.count(page)
    )


def not_cited(bibliography, pages):
    """Keys that are in the bibliography and not on the pages, or the reverse."""
    keys = re.findall(r"^@\w+\{([^,]+),", bibliography, re.MULTILINE)
    groups = re.findall(r"\{cite:\w+\}`([^`]+)`", "\n".join(pages.values()))
    cited = {key.strip() for group in groups for key in group.split(",")}
    return sorted({*keys} ^ cited)


def dead_links(text, folder):
    """Links to files that are not there; Sphinx sees those between pages only."""
    targets = re.findall(r"\]\(<?([^)\s>]+)", text)
    targets += re.findall(r"\b(?:src|href)=\"([^\"]+)\"", text)
    return [
        target
        for target in targets
        if not re.match(r"[a-z]+:|#", target)
        and not (folder / target.split("#")[0]).exists()
    ]


def no_targets(text, makefile):
    """Commands `make x` without a rule for x."""
    rules = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    code = re.findall(r"`make ([a-z-]+)", text)
    code += re.findall(r"^\s*(?:- run: )?make ([a-z-]+)", text, re.MULTILINE)
    return sorted({*code} - {*rules})


def imported(code):
    """The names of utils that code uses, as (module, name)."""
    tree = ast.parse(code)
    modules, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "utils":
            modules |= {a.asname or a.name: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            package, _, module = (node.module or "").partition(".")
            if package == "utils":
                found |= {(module, a.name) for a in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            found |= {(module, node.attr)} if module else set()
    return found


def own_uses(code):
    """The names that a module uses in its own code."""
    return {
        node.id
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Name)
    }


def public(code):
    """The names that a module lists in `__all__`."""
    for node in ast.parse(code).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
        ):
            return set(ast.literal_eval(node.value))
    return set()


def without_docstring(code):
    kinds = (ast.FunctionDef, ast.ClassDef)
    body = [node for node in ast.parse(code).body if isinstance(node, kinds)]
    return {node.name for node in body if not ast.get_docstring(node)}


def not_documented(names, reference, modules):
    """Names that the reference does not show, or that have no docstring."""
    members = {}
    directive = r"automodule:: utils\.(\w+)\n((?: +:.*\n?)+)"
    for module, options in re.findall(directive, reference):
        chosen = re.search(r":members: (.+)", options)
        members[module] = chosen[1].split(", ") if chosen else None
    return sorted(
        f"utils.{module}.{name}"
        for module, name in names
        if module not in members
        or (members[module] and name not in members[module])
        or name in without_docstring(modules[module])
    )


def test_every_page_is_in_the_contents():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    pages = [f"book/{Path(name).stem}" for name in cells("markdown")]
    assert not not_listed(toc, pages), (
        "list each page of book/ once in _toc.yml"
    )


def test_every_reference_is_cited_and_every_citation_resolves():
    bibliography = (BOOK / "references.bib").read_text()
    assert not not_cited(bibliography, cells("markdown")), (
        "cite it on a page, or add it to book/references.bib"
    )


def test_links_lead_to_files():
    texts = {name: (text, BOOK) for name, text in cells("markdown").items()}
    texts |= {name: ((ROOT / name).read_text(), ROOT) for name in GUIDES}
    for name, (text, folder) in texts.items():
        assert not dead_links(text, folder), f"mend the links of {name}"


@pytest.mark.parametrize(
    "name", [*GUIDES, ".ci/run", ".github/workflows/book.yml"]
)
def test_commands_are_in_the_makefile(name):
    found = no_targets(
        (ROOT / name).read_text(), (ROOT / "Makefile").read_text()
    )
    assert not found, f"{name} names them: write the rule, or another command"


def test_what_chapters_use_is_documented():
    names = set().union(*map(imported, cells("code").values()))
    reference = (BOOK / "utils.md").read_text()
    found = not_documented(names, reference, MODULES)
    assert not found, (
        "list it or its module in book/utils.md, give it a docstring"
    )


def test_every_public_name_is_used():
    """By a chapter, by another module, or by its own: a class that it returns."""
    used = set().union(*map(imported, cells("code").values()))
    names = set()
    for module, code in MODULES.items():
        used |= imported(code) | {(module, name) for name in own_uses(code)}
        names |= {(module, name) for name in public(code)}
    found = sorted(names - used)
    assert not found, "use it in a chapter, or take it away"


TOC = {"root": "book/index", "parts": [{"chapters": [{"file": "book/01"}]}]}
CODE = """
from utils import forward_mode as fm
from utils.rules import one
fm.derivative(one)
"""
REFERENCE = """
.. automodule:: utils.rules
   :members:

.. automodule:: utils.wengert
   :members: Node, listed
"""


@pytest.mark.parametrize(
    "found, expected",
    [
        (not_listed(TOC, ["book/index", "book/01"]), []),
        (not_listed(TOC, ["book/index", "book/01", "book/02"]), ["book/02"]),
        (not_listed(TOC, ["book/index"]), ["book/01"]),
        (not_cited("@misc{a,\n@book{b,\n", {"p": "{cite:p}`a, b`"}), []),
        (not_cited("@misc{a,\n@book{b,\n", {"p": "{cite:t}`a`"}), ["b"]),
        (not_cited("@misc{a,\n", {"p": "{cite:t}`a` {cite:p}`b`"}), ["b"]),
        (dead_links("[a](test_pages.py#x) [b](#y) [c](https://z)", Path(__file__).parent), []),
        (dead_links('![a](no.png) <img src="no.svg">', ROOT), ["no.png", "no.svg"]),
        (no_targets("`make book X=1`\nmake test", "book: x\ntest:\n"), []),
        (no_targets("`make bok`\n    - run: make tst", "book:"), ["bok", "tst"]),
        (imported(CODE), {("forward_mode", "derivative"), ("rules", "one")}),
        (own_uses("def f(): return g"), {"g"}),
        (public('__all__ = ["f"]\nCASES = 3'), {"f"}),
        (without_docstring('def f(): pass\nclass C: "Yes."'), {"f"}),
        (not_documented({("rules", "one")}, REFERENCE, {"rules": "one = 1"}), []),
        (not_documented({("rules", "one")}, REFERENCE, {"rules": "def one(): pass"}), ["utils.rules.one"]),
        (not_documented({("tracing", "bare")}, REFERENCE, {}), ["utils.tracing.bare"]),
        (not_documented({("wengert", "SIGNS")}, REFERENCE, {}), ["utils.wengert.SIGNS"]),
    ],
)  # fmt: skip
def test_finds_what_is_planted_and_no_more(found, expected):
    assert found == expected
