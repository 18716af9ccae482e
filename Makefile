# Short names for the commands that README.md gives; each sets up .venv first where it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: help book test lab notebooks mutate pdf check-site compare-weight check-cheatsheet mutate-utils matrix processors bench lint lock address clean

help:  ## list these targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 20

# The reference of utils imports TensorFlow, which would print lines of its own.
book pdf: export TF_CPP_MIN_LOG_LEVEL := 3
book pdf: export TF_ENABLE_ONEDNN_OPTS := 0
book: $(VENV)/.done  ## build the site in _build/html
	rm -rf _build/html _build/.doctrees
	$(BIN)/jupyter-book build . -W -n --keep-going
	@echo "Open _build/html/index.html in a browser."

pdf: $(VENV)/.done  ## print the whole book to _build/pdf (needs Chromium)
	rm -rf _build/singlehtml _build/.doctrees
	$(BIN)/jupyter-book build . -W -n --keep-going --builder singlehtml
	$(BIN)/python tools/print_pdf.py

test: $(VENV)/.done  ## run every cell and compare, test utils and the notebooks' hygiene
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lab: $(VENV)/.done  ## open the notebooks in JupyterLab
	cd book && ../$(BIN)/jupyter lab

notebooks: $(VENV)/.done  ## run every notebook and store its outputs
	$(BIN)/python tools/run_notebooks.py book/*.ipynb

# Takes half an hour. CHAPTERS="book/0[1-3]_*.ipynb" tries some; SEED is any text.
SEED ?= 0
COUNT ?= 100
CHAPTERS ?= book/*.ipynb
mutate: $(VENV)/.done  ## change cells at random, see whether make test notices
	nice $(BIN)/python tools/mutate_notebooks.py --seed "$(SEED)" --count $(COUNT) \
		--jobs $(JOBS) $(CHAPTERS)

# Takes hours; MUTANTS="utils.wengert.*" tries some. mutmut adds packages, and changes none.
mutate-utils: $(VENV)/.done  ## change lines of utils, see whether its unit tests notice
	$(BIN)/python -m pip install --quiet mutmut==3.8.1
	nice $(BIN)/python tools/mutate_utils.py $(MUTANTS)

check-site: $(VENV)/.done  ## open every page of the built site in Chromium
	$(BIN)/python tools/supply.py
	$(BIN)/python tools/check_site.py

# sphinx-mathjax-offline is for the other site only; the book does not need it.
compare-weight: $(VENV)/.done  ## weigh the pages against the theme's defaults (after make book)
	$(BIN)/python -m pip install --quiet sphinx-mathjax-offline==0.0.2
	$(BIN)/python tools/compare_weight.py

check-cheatsheet: $(VENV)/.done  ## run the cheat sheet in five frameworks (several GB)
	$(BIN)/python tools/check_cheatsheet.py

# Hours, and 2 GB at a time; ONLY="python3.13 tensorflow2.20" tries some.
matrix:  ## run the tests with other versions, each in an environment of its own
	JOBS=$(JOBS) nice $(PYTHON) tools/run_matrix.py $(ONLY)

processors: $(VENV)/.done  ## run the notebooks as on other processors (an hour)
	JOBS=$(JOBS) nice $(BIN)/python tools/run_matrix.py --processors $(ONLY)

# ROWS="scalar chain" measures some, and prints them only. GUIDE=FILE is TensorFlow's autodiff.ipynb.
bench: $(VENV)/.done  ## measure utils beside its peers, write BENCHMARKS.md (ten minutes)
	GUIDE="$(GUIDE)" $(BIN)/python tools/bench.py $(ROWS)

lint: $(VENV)/.done  ## ruff, over code and notebooks
	$(BIN)/ruff check
	$(BIN)/ruff format --check

$(VENV)/.done: requirements.txt
	@PYTHON="$(PYTHON)" sh tools/set_up.sh

lock:  ## pin in requirements.txt what pyproject.toml asks for (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv"; exit 1; }
	sh tools/lock.sh

address:  ## set the repository's address: URL=https://github.com/OWNER/REPO
	$(PYTHON) tools/set_address.py "$(URL)"

clean:  ## remove the site and the virtual environment
	rm -rf _build mutants $(VENV)
