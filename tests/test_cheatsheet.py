"""The cheat sheet gives what it says, and its check would notice if it did not.

The frameworks of this environment run here, all five in ``make check-cheatsheet``.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "check_cheatsheet.py"))
read, check, PageError = TOOL["read"], TOOL["check"], TOOL["PageError"]
PAGE = TOOL["PAGE"].read_text(encoding="utf-8")


def snippets_of(framework, page=PAGE):
    return [s for s in read(page)[1] if s.framework == framework]


@pytest.mark.parametrize("framework", ["TF 2", "Keras 3"])
def test_every_line_gives_what_the_page_says(framework):
    assert check(sys.executable, snippets_of(framework)) == []


def test_what_is_installed_is_what_the_book_pins():
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for framework in ("TF 2", "Keras 3"):
        for package in read(PAGE)[0][framework].split()[4:]:
            assert re.search(rf"^{re.escape(package)}\b", pins, re.MULTILINE)


def test_every_thing_links_to_what_explains_it():
    for thing in PAGE.split("\n### ")[1:]:
        title, _, text = thing.partition("\n")
        text = text.partition("::::")[0]
        assert re.search(r"\]\(|\{ref\}", text), f"no link under {title!r}"


def small_page(code):
    """Return a page with one thing, for which TF 2 has this code."""
    tabs = {
        name: f":::{{tab-item}} {name}\n%s```python\n%s\n```\n:::\n"
        for name in TOOL["FRAMEWORKS"]
    }
    install = "```sh\npython -m pip install x==1\n```\n"
    start = [tab % (install, "a = 3\na  # 3") for tab in tabs.values()]
    thing = [
        tab % ("", code if name == "TF 2" else "a  # 3")
        for name, tab in tabs.items()
    ]
    pages = ["# Page\n## Start\n", *start, "::::\n### Thing\n", *thing]
    return "".join(pages) + "::::\n"


@pytest.mark.parametrize(
    "code",
    [
        "a / 7  # 0.4286",
        "a, [a, (a + 0.5, None)]  # 3, [3, [3.5, None]]",
        "b = float('nan')\nb, 1e400, 2j  # nan, inf, 2j",
        "a.gradient  # AttributeError\na  # 3",
        "'Some' + 'name', a == 3  # 'Somename', True\n# a remark\na  # 3",
        "(\n    a\n    + 1\n)  # 4",
        "'1.15.5'  # 1.15.5",
    ],
)
def test_a_right_value_passes(code):
    assert check(sys.executable, snippets_of("TF 2", small_page(code))) == []


@pytest.mark.parametrize(
    "code",
    [
        "a / 7  # 0.4287",
        "a  # [3]",
        "[a]  # 3",
        "a, a  # 3",
        "a  # None",
        "None  # 0",
        "a == 3  # 1",
        "a  # TypeError",
        "a.gradient  # TypeError",
        "a.gradient  # 3",
        "float('nan')  # 0",
        "a  # nan",
        "'1.15.5'  # 1.15.4",
        "a.gradient\na  # 3",
    ],
)
def test_a_wrong_value_is_found(code):
    faults = check(sys.executable, snippets_of("TF 2", small_page(code)))
    assert "line" in faults[0]
    assert "Thing" in faults[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a  # 7", "a", "no line of this code says its value"),
        ("a  # 7", "b = a  # 7", "this line has none"),
        ("a  # 7", "a  # 7\nif a: pass  # 8", "this line has none"),
        ("a  # 7", "a = = 7", "invalid syntax"),
        ("```python\na  # 7\n```\n", "", "a tab without code"),
        ("### Thing", "### Thing\n```python\na  # 3\n```", "no check reads"),
        ("```python\na  # 7", "```\na  # 7", "no check reads"),
        (":::{tab-item} JAX", ":::{tab-item} Jax", "tabs"),
    ],
)
def test_code_that_would_not_be_run_is_refused(old, new, message):
    page = small_page("a  # 7")
    assert old in page
    with pytest.raises(PageError, match=message):
        read(page.replace(old, new))
