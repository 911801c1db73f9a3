PYTHON ?= python3
VENV ?= .venv
PIP = $(VENV)/bin/python -m pip install --quiet -c constraints.txt

.PHONY: install test check docs quickstart clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[offline,dev]"
	touch $@

quickstart: install
	PATH="$(abspath $(VENV))/bin:$$PATH" bash recipes/quickstart.sh

test: install
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/python -m pytest -n 2 --dist worksteal

check: install
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/pre-commit run --all-files

docs: install
	$(VENV)/bin/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) run runs build site *.egg-info
