"""Run notebooks from top to bottom and store their outputs.

Nothing is stored that differs from one run to the next (times) or from one machine to the
next (Python's version), so a second run changes no byte.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

# Silence TensorFlow's start-up lines, which carry times and process ids; both are needed.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def run(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        book,
        timeout=300,
        record_timing=False,
        coalesce_streams=True,
        resources=folder,
    ).execute()
    book.metadata = nbformat.from_dict(METADATA)
    nbformat.write(book, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        run(Path(name))
