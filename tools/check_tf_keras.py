"""See what the optimizers of tf-keras (Keras 2) do, in an environment of their own.

The package needs the full TensorFlow wheel, which would replace the smaller one of the
book's environment. So this makes a scratch environment (2.3 GB, removed at the end),
runs the cells of chapter 08 that are tagged ``tf-keras`` in it, and stores the outcome
of each call in the file that the chapter reads. Run it again when TensorFlow's pin in
requirements.txt changes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHAPTER = ROOT / "book" / "08_take_minimize_apart.ipynb"
STORED = ROOT / "utils" / "tf_keras.json"

BEFORE = """
import json
import tensorflow as tf
import tf_keras
"""
AFTER = """
seen = {"tensorflow": tf.__version__, "tf-keras": tf_keras.__version__}
for name, module in [
    ("optimizers", tf_keras.optimizers),
    ("legacy", tf_keras.optimizers.legacy),
]:
    seen[name] = {k: outcome(call, module.SGD) for k, call in calls.items()}
print(json.dumps(seen, indent=2))
"""


def tagged_cells() -> str:
    """Return the code that the chapter shares with this script."""
    cells = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    sources = [
        "".join(cell["source"])
        for cell in cells
        if "tf-keras" in cell["metadata"].get("tags", [])
    ]
    if not sources:
        sys.exit(f"{CHAPTER.name} has no cell with the tag tf-keras")
    return "\n".join(sources)


def pinned() -> str:
    """Return the version of TensorFlow in requirements.txt."""
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    return re.search(r"^tensorflow==(\S+)", pins, re.MULTILINE)[1]


def main() -> None:
    code, version = BEFORE + tagged_cells() + AFTER, pinned()
    minor = version.rsplit(".", 1)[0]
    packages = [f"tensorflow=={version}", f"tf-keras=={minor}.*"]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = "Scripts" if os.name == "nt" else "bin"
        python = str(Path(folder, binaries, "python"))
        subprocess.run(
            [python, "-m", "pip", "install", "-q", *packages], check=True
        )
        result = subprocess.run(
            [python, "-c", code],
            check=True,
            env=os.environ | quiet,
            stdout=subprocess.PIPE,
            text=True,
        )
    print(result.stdout, end="")
    STORED.write_text(result.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
