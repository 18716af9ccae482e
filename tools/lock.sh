#!/bin/sh
# Pin the whole tested set, one for all supported Pythons and systems, with our package first.
set -eu
echo "-e ." > requirements.txt
uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
    --extra book --extra test --no-emit-index-url --no-header --no-annotate \
    pyproject.toml >> requirements.txt
