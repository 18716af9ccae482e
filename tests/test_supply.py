"""What comes from elsewhere is what `tools/supply.toml` lists, and a stranger is seen."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

import supply  # noqa: E402

LISTED = supply.read()


def test_every_library_is_as_listed():
    found = supply.changed(LISTED)
    assert not found, "\n".join(
        [
            *found,
            "See what changed and whether the licence holds; set the version in"
            " tools/supply.toml and run `python tools/supply.py --write`.",
        ]
    )


def test_nothing_in_the_repository_is_unlisted():
    found = supply.unlisted(LISTED)
    assert not found, "\n".join(found)


def test_no_extension_is_unlisted():
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    found = supply.unlisted_extensions(LISTED, config)
    assert not found, "\n".join(found)


def test_an_entry_is_whole():
    for library in LISTED["library"]:
        assert library["licence"] and library["files"], library["name"]
    for path in LISTED["own"]["repository"]:
        assert (ROOT / path).exists(), f"{path} is gone: take it off the list"


@pytest.fixture
def copy(tmp_path):
    """A repository that holds what ours takes from elsewhere."""
    folder = tmp_path / "book" / "_ext" / "katex"
    shutil.copytree(ROOT / "book" / "_ext" / "katex", folder)
    return tmp_path


def katex_with(**changes):
    (katex,) = [e for e in LISTED["library"] if e["name"] == "KaTeX"]
    return LISTED | {"library": [katex | changes]}


def test_an_unchanged_copy_is_as_listed(copy):
    assert supply.changed(katex_with(), copy) == []
    assert supply.unlisted(katex_with(), copy) == []


def test_a_changed_byte_is_seen(copy):
    font = copy / "book/_ext/katex/fonts/KaTeX_Main-Regular.woff2"
    data = bytearray(font.read_bytes())
    data[-1] ^= 1
    font.write_bytes(data)
    (found,) = supply.changed(katex_with(), copy)
    assert "KaTeX" in found


def test_a_file_that_is_gone_is_seen(copy):
    (copy / "book/_ext/katex/fonts/KaTeX_Main-Regular.woff2").unlink()
    assert supply.changed(katex_with(), copy)


def test_another_version_is_seen(copy):
    (found,) = supply.changed(katex_with(version="0.19.2"), copy)
    assert "0.19.2 is listed" in found


@pytest.mark.parametrize("name", ["book/_static/d3.min.js", "book/a.woff2"])
def test_a_stranger_in_the_repository_is_seen(copy, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("a")
    (found,) = supply.unlisted(katex_with(), copy)
    assert found.startswith(name)


def test_a_stranger_on_the_site_is_seen(copy):
    site = copy / "site"
    static = site / "_static"
    shutil.copytree(copy / "book" / "_ext" / "katex", static)
    (static / "live").mkdir()
    (static / "live" / "live.js").write_text("ours, by its name")
    (site / "searchindex.js").write_text("written while the site is built")
    assert supply.unlisted_on_site(katex_with(), site, copy) == []
    (static / "d3.min.js").write_text("a")
    (found,) = supply.unlisted_on_site(katex_with(), site, copy)
    assert found.startswith("_static/d3.min.js")


def test_an_extension_with_files_of_its_own_is_seen():
    config = "    extensions:\n      - sphinx_design\n      - sphinx.ext.a\n"
    (found,) = supply.unlisted_extensions({"library": []}, config)[:1]
    assert found.startswith("sphinx_design, such as ")
    assert supply.unlisted_extensions(LISTED, config) == []


KNOWN = {"id": "CVE-1", "fix_versions": ["2.0"]}


@pytest.mark.parametrize(
    "answers, status, words",
    [
        ([{"name": "a", "vulns": []}], 0, "Asked about 1 of 1 packages: none"),
        (
            [{"name": "a", "version": "1.0", "vulns": [KNOWN]}],
            1,
            "- a 1.0: CVE-1, mended in 2.0",
        ),
        # pip-audit itself ends with "No known vulnerabilities found" here.
        ([{"name": "a", "skip_reason": "?"}], 2, "packages: nothing is known"),
        (
            [{"name": "a", "vulns": []}, {"name": "b", "skip_reason": "?"}],
            2,
            "NOT AUDITED: b",
        ),
        ([], 2, "Asked about 0 of 0"),
    ],
)
def test_an_audit_does_not_pretend(answers, status, words):
    result, text = supply.audit(answers)
    assert result == status
    assert words in text
