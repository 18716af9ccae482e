"""Open every page of the built site in Chromium; report what readers would stumble over.

    python tools/check_site.py [FOLDER]

FOLDER is ``_build/html`` unless given. Each page is opened at 1280 and at 390 pixels, in
the light and in the dark. Exit status: 0 without a fault, 1 with one, 2 when nothing could
be checked.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urljoin

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Request,
    Response,
    sync_playwright,
)

WIDTHS = (1280, 390)
THEMES = ("light", "dark")  # as the browser prefers, which the site follows
# What a web server compresses.
TEXT = {".css", ".html", ".js", ".json", ".svg", ".txt"}
MODES = len(WIDTHS) * len(THEMES)
OUTSIDE = "Request to another host"
NO_CHROMIUM = (
    "No Chromium found. Install it (Debian, Ubuntu: apt-get install chromium; macOS:"
    " brew install --cask chromium) or set CHROMIUM to the path of a Chromium or Chrome."
)

# Runs in a page; returns its faults, the addresses that it links to, and its anchors.
LOOK = r"""async theme => {
  const faults = [];
  const note = (kind, text) => faults.push([kind, text]);
  const name = element => element.cloneNode(false).outerHTML.replace(/<\/.*/, '');

  const shown = document.documentElement.dataset.theme ?? theme;
  if (shown !== theme) note('Wrong theme', shown);

  const root = document.scrollingElement;
  if (root.scrollWidth > root.clientWidth) {
    const contained = e => e !== document.body && (getComputedStyle(e).position === 'fixed'
      || getComputedStyle(e.parentElement).overflowX !== 'visible' || contained(e.parentElement));
    const wide = [...document.body.querySelectorAll('*')].find(
      e => e.getBoundingClientRect().right > root.clientWidth + 0.5 && !contained(e));
    note('Sideways scrolling', `${root.scrollWidth} px` + (wide ? `: ${name(wide)}` : ''));
  }

  await Promise.all([...document.images].map(async image => {
    const alt = image.alt.trim();
    if (!alt && !image.closest('[role=presentation], [role=none], [aria-hidden=true]'))
      note('Image without alt text', name(image));
    if (/\.(avif|gif|jpe?g|png|svg|webp)$/i.test(alt) || /^(\S*\/)?[0-9a-f]{16,}$/i.test(alt))
      note('Alt text is a file name', alt);
    const shown = name(image);
    image.loading = 'eager';
    await image.decode().catch(() => note('Image not shown', shown));
  }));

  for (const e of document.querySelectorAll('[rel~=preconnect], [rel~=dns-prefetch]'))
    note('Request to another host', e.href);

  for (const e of document.querySelectorAll('.katex-error, mjx-merror, .math code'))
    note('Formula not rendered', e.textContent);
  const blocks = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (parent.closest('code, pre, kbd, samp, script, style, textarea, math, .katex')) continue;
    const block = parent.closest('p, li, dt, dd, td, th, div, section, summary, figcaption, body');
    blocks.set(block, (blocks.get(block) ?? '') + walker.currentNode.data);
  }
  for (const text of blocks.values()) {
    const raw = text.match(/(\\[(\[]|\\begin\{|\$\$)[^]*|\$[^\s$]([^$]*[^\s$])?\$(?!\d)/);
    if (raw) note('Formula not rendered', raw[0]);
  }

  return {
    faults,
    links: [...document.links, ...document.querySelectorAll('link[href]')].map(e => e.href),
    anchors: [...document.querySelectorAll('[id], a[name]')].flatMap(e => [e.id, e.name]),
  };
}"""


class Handler(SimpleHTTPRequestHandler):
    """Serves files that the browser may not keep: every visit is a first one."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # four tabs ask for many files at once

    def handle_error(self, *args: object) -> None:  # the browser hung up
        pass


@dataclass
class Visit:
    """What was seen of one page, opened at one width in one theme."""

    page: str
    mode: str
    faults: set[tuple[str, str]] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)


class Tab:
    """A tab of one width and theme, with storage of its own, for page after page."""

    def __init__(
        self, browser: Browser, base: str, width: int, theme: str
    ) -> None:
        self.base, self.host = base, urljoin(base, "/")
        self.theme, self.mode = theme, f"{width} px {theme}"
        viewport = {"width": width, "height": 844}
        self.tab = browser.new_page(viewport=viewport, color_scheme=theme)
        self.tab.set_default_timeout(15_000)
        self.tab.on("console", self.on_console)
        self.tab.on(
            "pageerror", lambda error: self.note("Script error", str(error))
        )
        self.tab.on("request", self.on_request)
        self.tab.on("requestfailed", self.on_failure)
        self.tab.on("response", self.on_response)
        self.tab.on("websocket", lambda socket: self.note(OUTSIDE, socket.url))

    def note(self, kind: str, text: str) -> None:
        text = " ".join(text.replace(self.base, "").split())
        self.visit.faults.add((kind, text[:160]))

    def on_console(self, message: ConsoleMessage) -> None:
        # A failed request is noted as one; Chromium's line about it would be a second.
        fetching = message.text.startswith("Failed to load resource")
        if message.type in ("warning", "error") and not fetching:
            self.note("Console message", f"{message.type}: {message.text}")

    def on_request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.visit.requests.append(request.url)
            if not request.url.startswith(self.host):
                self.note(OUTSIDE, request.url)

    def on_failure(self, request: Request) -> None:
        if request.url.startswith(self.host):
            self.note("Request failed", request.url)

    def on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.on_failure(response.request)

    def start(self, page: str) -> None:
        self.visit = Visit(page, self.mode)
        self.tab.goto(self.base + page, wait_until="commit")

    def look(self) -> None:
        self.tab.wait_for_load_state("networkidle")
        seen = self.tab.evaluate(LOOK, self.theme)
        for kind, text in seen["faults"]:
            self.note(kind, text)
        self.visit.links, self.visit.anchors = seen["links"], seen["anchors"]

    def leave(self) -> None:
        """Let nothing of this visit, kept or still to come, reach the next one."""
        self.tab.evaluate("localStorage.clear()")
        self.tab.goto("about:blank")


def visit_all(browser: Browser, base: str, pages: list[str]) -> list[Visit]:
    """Open each page in every mode, the modes of one page side by side."""
    tabs = [Tab(browser, base, *mode) for mode in product(WIDTHS, THEMES)]
    visits = []
    for page in pages:
        for step in (partial(Tab.start, page=page), Tab.look, Tab.leave):
            for tab in tabs:
                try:
                    step(tab)
                except Error as error:  # Playwright's own, time-outs among them
                    tab.note("Page not loaded", error.message)
        visits += [tab.visit for tab in tabs]
    return visits


def file_of(address: str, base: str) -> str:
    """Name the file that an address stands for, relative to the site's folder.

    Examples
    --------
    >>> file_of("http://host/html/book/a%20b.html?q=1", "http://host/html/")
    'book/a b.html'
    """
    path = unquote(address.split("?")[0].removeprefix(base))
    return path + "index.html" if path == "" or path.endswith("/") else path


def check_links(visits: list[Visit], base: str, files: set[str]) -> None:
    """Note each link to the site whose file, or whose anchor there, does not exist."""
    anchors = defaultdict(
        lambda: {"", "top"}
    )  # both lead to the head of any page
    for visit in visits:
        anchors[visit.page].update(visit.anchors)
    for visit in visits:
        for link in visit.links:
            address, _, fragment = link.partition("#")
            page = file_of(address, base)
            if link.startswith(urljoin(base, "/")) and page not in files:
                visit.faults.add(("Dead link", f"no file {page}"))
            elif page in anchors and unquote(fragment) not in anchors[page]:
                visit.faults.add(
                    ("Dead link", f"no anchor {fragment} in {page}")
                )


@cache
def weigh(file: Path) -> tuple[int, int]:
    """Return the bytes of a file, and those that a compressing server sends for it."""
    content = file.read_bytes()
    packed = gzip.compress(content) if file.suffix in TEXT else content
    return len(content), len(packed)


def print_weights(visits: list[Visit], base: str, root: Path) -> None:
    """Print what a first visit to each page loads from the site."""
    width = max(len(visit.page) for visit in visits)
    print(f"{'First visit':{width}}        KB  gzipped  requests")
    for visit in visits:
        files = {root / file_of(url, base) for url in visit.requests}
        weights = [weigh(file) for file in files if file.is_file()]
        plain, packed = (
            sum(weight[i] for weight in weights) / 1000 for i in (0, 1)
        )
        count = len(visit.requests)
        print(f"{visit.page:{width}} {plain:9,.0f} {packed:8,.0f} {count:9}")


def print_faults(visits: list[Visit]) -> int:
    """Print the faults by kind, each on one line, and return their number."""
    faults = defaultdict(lambda: defaultdict(list))
    for visit in visits:
        for kind, text in sorted(visit.faults):
            faults[kind][f"{visit.page}: {text}"].append(visit.mode)
    for kind in sorted(faults):
        print(f"\n{kind}")
        for line, modes in faults[kind].items():
            print(
                f"  {line}"
                + (f" ({', '.join(modes)})" if len(modes) < MODES else "")
            )
    return sum(map(len, faults.values()))


def find_chromium() -> str | None:
    chosen = os.environ.get("CHROMIUM")
    names = (
        [chosen]
        if chosen
        else ["chromium", "chromium-browser", "google-chrome"]
    )
    return next(filter(None, map(shutil.which, names)), None)


def main(folder: str = "_build/html") -> int:
    """Check the site in a folder and return the exit status."""
    root = Path(folder).resolve()
    files = {
        f.relative_to(root).as_posix() for f in root.rglob("*") if f.is_file()
    }
    pages = sorted(file for file in files if file.endswith(".html"))
    # The theme leaves bits of templates there.
    pages = [page for page in pages if not page.startswith("_static/")]
    chromium = find_chromium()
    if not pages or not chromium:
        no_page = f"No page in {root}: build the site first (make book)."
        print(NO_CHROMIUM if pages else no_page)
        return 2
    # The site lies in a folder of its host, as when published: "/" is outside of it.
    server = Server(("127.0.0.1", 0), partial(Handler, directory=root.parent))
    Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/{root.name}/"
    # What asks for any other host is sent to a port where nobody answers.
    proxy = {"server": "http://127.0.0.1:1", "bypass": "127.0.0.1"}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, proxy=proxy
        )
        visits = visit_all(browser, base, pages)
        browser.close()
    server.shutdown()

    check_links(visits, base, files)
    print_weights(visits[::MODES], base, root)
    count = print_faults(visits)
    failed = sum(bool(visit.faults) for visit in visits)
    print(
        f"\n{len(pages)} pages, each opened in {MODES} ways: {count or 'no'} faults."
    )
    print(f"{len(visits) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
