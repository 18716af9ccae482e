"""Compare what the pages weigh with what they would in Jupyter Book's defaults.

    python tools/compare_weight.py

The book is built a second time, in ``_build/plain``: the same pages, but with
the theme as it comes, its icon script among it, and with MathJax in the
browser. MathJax lies in the site (the package sphinx-mathjax-offline), so that
its bytes count; what a page of that site asks from other hosts does not. Then
each page of both sites is opened once, with nothing stored. Exit status: 0
when no page of the book weighs more than half, 1 otherwise.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Thread

import yaml
from check_site import Handler, Server, file_of, find_chromium, weigh
from playwright.sync_api import Page, Request, sync_playwright

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "_build"
PLAIN = BUILD / "plain"
# Jupyter Book's own list, and what the pages cannot be built without.
EXTENSIONS = [
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_proof",
    "sphinx_exercise",
    "sphinxcontrib.bibtex",
    "sphinx-mathjax-offline",
]
OURS = [
    "extensions",
    "templates_path",
    "html_css_files",
    "html_additional_pages",
    "html_domain_indices",
    "katex_macros",
]


def build_plain() -> Path:
    """Build the book without what it adds to the theme; return the site."""
    shutil.rmtree(PLAIN, ignore_errors=True)
    skip = shutil.ignore_patterns("_templates", "_ext", "__pycache__")
    shutil.copytree(ROOT / "book", PLAIN / "book", ignore=skip)
    shutil.copytree(ROOT / "utils", PLAIN / "utils", ignore=skip)
    shutil.copytree(ROOT / ".github", PLAIN / ".github")
    for name in ("_toc.yml", "CITATION.cff"):
        shutil.copy(ROOT / name, PLAIN)
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    sphinx = config["sphinx"]
    del sphinx["local_extensions"]
    sphinx["extra_extensions"] = EXTENSIONS
    macros = sphinx["config"]["katex_macros"]
    sphinx["config"]["mathjax3_config"] = {
        "tex": {"macros": {name.strip("\\"): macros[name] for name in macros}}
    }
    for key in OURS:
        del sphinx["config"][key]
    (PLAIN / "_config.yml").write_text(yaml.safe_dump(config), "utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", PLAIN]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return PLAIN / "_build" / "html"


def weigh_page(tab: Page, base: str, page: str, root: Path) -> float:
    """Open a page and return the KB, gzipped, that it loads from its site."""
    urls = set()

    def note(request: Request) -> None:
        urls.add(request.url)

    tab.on("request", note)
    tab.goto(base + page, wait_until="load")
    tab.wait_for_load_state("networkidle")
    tab.remove_listener("request", note)
    files = {root / file_of(url, base) for url in urls if url.startswith(base)}
    return sum(weigh(file)[1] for file in files if file.is_file()) / 1000


def main() -> int:
    roots = [BUILD / "html", build_plain()]
    pages = sorted(
        path.relative_to(roots[0]).as_posix()
        for path in [*roots[0].glob("book/*.html"), roots[0] / "index.html"]
    )
    bases = []
    for root in roots:
        handler = partial(Handler, directory=root)
        server = Server(("127.0.0.1", 0), handler)
        Thread(target=server.serve_forever, daemon=True).start()
        bases.append(f"http://127.0.0.1:{server.server_port}/")
    # What asks for another host is sent to a port where nobody answers.
    proxy = {"server": "http://127.0.0.1:1", "bypass": "127.0.0.1"}
    worst = 0.0
    print(f"{'First visit, KB gzipped':40} book  plain  ratio")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), proxy=proxy
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 844})
        for page in pages:
            book, plain = (
                weigh_page(tab, base, page, root)
                for base, root in zip(bases, roots)
            )
            worst = max(worst, book / plain)
            print(f"{page:40} {book:4.0f} {plain:6.0f} {book / plain:6.2f}")
        browser.close()
    print(f"at worst {worst:.2f} of the plain site")
    return 1 if worst > 0.5 else 0


if __name__ == "__main__":
    sys.exit(main())
