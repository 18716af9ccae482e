"""tools/set_address.py, and what it makes possible: buttons, cards and Colab."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
LEFT = ".git .venv _build tests .*cache .hypothesis *.egg-info __pycache__"
URL = "https://github.com/Someone/a.book"
SITE = "https://someone.github.io/a.book/"
FORK = "https://github.com/else/fork"


@pytest.fixture
def copy(tmp_path):
    """A copy of the repository, without an address."""
    folder = tmp_path / "copy"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT.split()))
    set_address(folder, "none")
    return folder


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def set_address(folder, *arguments):
    script = folder / "tools" / "set_address.py"
    return run(sys.executable, script, *arguments)


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files}


def test_every_notebook_begins_with_the_same_cell():
    cells = {}
    for path in NOTEBOOKS:
        book = nbformat.read(path, as_version=4)
        first = next(cell for cell in book.cells if cell.cell_type == "code")
        assert first.metadata == {"tags": ["remove-cell"]}, path.name
        cells.setdefault(first.source, []).append(path.name)
    assert len(cells) == 1, f"copy the first cell of another chapter: {cells}"


def test_an_address_is_set_replaced_and_taken_out_again(copy):
    before = contents(copy)
    assert set_address(copy, URL).returncode == 0
    once = contents(copy)
    changed = {path for path in once if once[path] != before[path]}
    places = {copy / "_config.yml", copy / "CITATION.cff", copy / "README.md"}
    assert changed == places | {copy / "book" / path.name for path in NOTEBOOKS}
    citation = yaml.safe_load((copy / "CITATION.cff").read_text())
    assert (citation["repository-code"], citation["url"]) == (URL, SITE)

    assert set_address(copy, f"{URL}.git/").stdout == ""
    assert contents(copy) == once
    set_address(copy, FORK)
    assert not any(URL.encode() in text for text in contents(copy).values())
    set_address(copy, "none")
    assert contents(copy) == before


def test_a_site_can_lie_at_the_top_of_its_host(copy):
    set_address(copy, "https://github.com/Someone/someone.github.io")
    config = yaml.safe_load((copy / "_config.yml").read_text())["sphinx"]
    assert config["config"]["html_baseurl"] == "https://someone.github.io/"


@pytest.mark.parametrize(
    "address",
    ["", "Someone/a.book", f"{URL}/blob/main", "https://example.org/a/book"],
)
def test_what_is_no_repository_on_github_is_refused(copy, address):
    before = contents(copy)
    done = set_address(copy, address)
    assert done.returncode == 1
    assert f"not {address!r}" in done.stderr
    assert contents(copy) == before


def test_the_workflow_refuses_the_address_of_another_repository(copy):
    step = (
        'tools/set_address.py --check "https://github.com/$GITHUB_REPOSITORY"'
    )
    assert step in (ROOT / ".github/workflows/book.yml").read_text()

    assert set_address(copy, "--check", URL).returncode == 0  # no buttons
    set_address(copy, URL)
    before = contents(copy)
    assert set_address(copy, "--check", URL).returncode == 0
    done = set_address(copy, "--check", FORK)
    assert done.returncode == 1
    assert f"make address URL={FORK}" in done.stderr
    assert contents(copy) == before


def test_only_a_site_with_an_address_has_buttons_and_a_card(copy):
    page = "book/11_apply_stop_gradient_last"
    # Two pages, to be quick. Their links to other pages are warnings here.
    toc = {"format": "jb-book", "root": "book/index"}
    toc["chapters"] = [{"file": page}]
    (copy / "_toc.yml").write_text(yaml.safe_dump(toc))

    def build():
        script = Path(sysconfig.get_path("scripts"), "jupyter-book")
        done = run(script, "build", ".", cwd=copy)
        assert done.returncode == 0, done.stderr
        return (copy / "_build" / "html" / f"{page}.html").read_text()

    def links(html):
        hosts = "github.com|mybinder.org|colab.research.google.com"
        found = re.findall(rf'href="(https://(?:{hosts})/[^"?]*[^"&]*)', html)
        return {re.sub(r"/new\?.*", "/new", link) for link in found}

    html = build()
    assert not links(html)
    assert "og:" not in html
    set_address(copy, URL)
    html = build()
    colab = "https://colab.research.google.com/github/Someone/a.book/blob/main"
    binder = "https://mybinder.org/v2/gh/Someone/a.book/main?urlpath=lab/tree"
    assert links(html) == {
        URL,
        f"{URL}/issues/new",
        f"{URL}/edit/main/{page}.ipynb",
        f"{colab}/{page}.ipynb",
        f"{binder}/{page}.ipynb",
    }
    assert f'<link rel="canonical" href="{SITE}{page}.html"' in html
    assert f'property="og:url" content="{SITE}{page}.html"' in html
    picture = re.search(rf'"og:image" content="{SITE}(.*?)"', html)[1]
    assert (copy / "_build" / "html" / picture).is_file()
    assert "google.colab" not in html  # the cell that installs utils is hidden


@pytest.mark.skipif(
    os.name != "posix" or not shutil.which("git") or not find_spec("pip"),
    reason="needs git, pip and symbolic links",
)
def test_a_notebook_runs_on_colab(copy, tmp_path):
    # Colab has TensorFlow and no clone of the book, and has google.colab
    # loaded. So here is an environment that has what this one has but for the
    # book's package, and a folder with one notebook: the one that also reads
    # a file. The address leads to the copy, with no change to the cell.
    set_address(copy, URL)
    bare, reader, stub = (
        tmp_path / "bare",
        tmp_path / "reader",
        tmp_path / "stub",
    )
    venv.create(bare, symlinks=True)
    python = bare / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", where).stdout.strip())
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name != "utils" and "chain_rule_in" not in path.name:
            (packages / path.name).symlink_to(path)

    (stub / "google" / "colab").mkdir(parents=True)
    (stub / "google" / "colab" / "__init__.py").touch()
    (stub / "sitecustomize.py").write_text("import google.colab\n")
    name = "08_take_minimize_apart.ipynb"
    reader.mkdir()
    shutil.copy(copy / "book" / name, reader)
    git = [
        "git",
        "-C",
        copy,
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b.example",
    ]
    for command in ["init -q", "add .", "commit -q -m copy"]:
        assert run(*git, *command.split()).returncode == 0
    env = {
        "PYTHONPATH": str(stub),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{copy.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": URL,
        # What builds the package is here, too: no network is needed.
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as --no-build-isolation
    }
    env = os.environ | env
    done = run(python, "-c", "import utils", cwd=reader, env=env)
    assert "No module named 'utils'" in done.stderr
    runner = [python, ROOT / "tools" / "run_notebooks.py", name]
    done = run(*runner, cwd=reader, env=env)
    assert done.returncode == 0, done.stderr

    def printed(folder):
        book = nbformat.read(folder / name, as_version=4)
        code = [cell for cell in book.cells if cell.cell_type == "code"]
        return [[o.get("text") for o in cell.outputs] for cell in code[1:]]

    assert (packages / "utils" / "numerical.py").is_file()
    assert printed(reader) == printed(copy / "book")
