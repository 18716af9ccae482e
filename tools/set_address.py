"""Write the address of the book's repository wherever one is needed.

    python tools/set_address.py https://github.com/OWNER/REPO
    python tools/set_address.py none
    python tools/set_address.py --check https://github.com/OWNER/REPO

The first sets the address, in place of an earlier one, and that of the site which
GitHub publishes from it. The second takes both out. The third writes nothing and
fails where the address of another repository is set: the workflow asks it before it
publishes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
GITHUB = r"https://github\.com/([\w-]+)/([\w.-]+?)(?:\.git)?/?"

CONFIG = """\
    # Written by `make address`, down to Colab.
    html_baseurl: {site}
    html_theme_options:
      repository_url: {url}
      repository_branch: main
      use_repository_button: true
      use_edit_page_button: true
      use_issues_button: true
      launch_buttons:
        notebook_interface: jupyterlab
        binderhub_url: https://mybinder.org
        colab_url: https://colab.research.google.com
"""
CITATION = "repository-code: {url}\nurl: {site}\n"

# File, what stands there with or without an address, what to write with one, and without.
PLACES = [
    (
        "_config.yml",
        r"^( +# Written by `make address`[\s\S]*)? {4}html_theme_options:\n"
        r"([\s\S]*colab_url: .*\n)?",
        CONFIG,
        "    html_theme_options:\n",
    ),
    ("CITATION.cff", r"(^(repository-code|url): .*\n)*\Z", CITATION, ""),
    (
        "README.md",
        r"(?<=\*\*Read\*\* ).*(?= that `make book` renders)",
        "[the website]({site})",
        "the website",
    ),
    ("book/*.ipynb", r'(?<="repository = \\")[^"\\]*(?=\\"\\n")', "{url}", ""),
]


def parse(address: str) -> dict[str, str]:
    """Return the addresses of a repository on GitHub and of its site."""
    found = re.fullmatch(GITHUB, address)
    if not found:
        sys.exit(
            f"URL is https://github.com/OWNER/REPO or none, not {address!r}."
        )
    owner, repo = found.groups()
    host = f"{owner.lower()}.github.io"
    folder = "" if repo.lower() == host else f"{repo}/"
    return {
        "url": f"https://github.com/{owner}/{repo}",
        "site": f"https://{host}/{folder}",
    }


def changes(address: str) -> dict[Path, str]:
    """Return each file that differs with this address, and its new text."""
    addresses = None if address == "none" else parse(address)
    changed = {}
    for files, pattern, filled, empty in PLACES:
        new = filled.format(**addresses) if addresses else empty
        for path in sorted(ROOT.glob(files)):
            old = path.read_text(encoding="utf-8")
            text, found = re.subn(pattern, new, old, count=1, flags=re.M)
            if not found:
                sys.exit(f"{path.name}: no place for the address, {pattern}")
            if text != old:
                changed[path] = text
    return changed


def main(*arguments: str) -> None:
    match arguments:
        case ["--check", address]:
            wrong = changes(address)
            if wrong and changes("none"):
                names = ", ".join(path.name for path in wrong)
                sys.exit(
                    f"Not the address of this repository, in {names}: run `make "
                    f"address URL={address}` (or URL=none) and commit."
                )
        case [address]:
            for path, text in changes(address).items():
                path.write_text(text, encoding="utf-8", newline="\n")
                print(path.relative_to(ROOT))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
