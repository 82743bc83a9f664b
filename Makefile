# The targets are described in CONTRIBUTING.md; `make demo` and `make test` need nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
DIR ?= .mtr/digits
# Whatever builds images here; docker, podman and buildah understand the same words.
CONTAINER_BUILDER ?= $(firstword $(notdir $(foreach one,docker podman buildah,$(shell command -v $(one) 2>/dev/null))))
IMAGE ?= localhost/mtr:latest
BASE_IMAGE ?= docker.io/library/python:3.11-slim-bookworm
EXTRAS ?= kubernetes

# onnxruntime tells its vendor that it runs unless it is asked not to.
export ORT_DISABLE_TELEMETRY := 1

ifdef UV
INSTALL = $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python
else
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev services demo digits-data examples image lint format test test-fast test-crash bench generated check-generated constraints clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -c constraints.txt -e .
	@touch $@

$(VENV)/.ready-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.ready

setup: $(VENV)/.ready ## virtual environment .venv with the product, pinned
services: ## PostgreSQL and RabbitMQ, which tests start themselves; installed on Debian where they are missing
	@deployments/install-services.sh

setup-dev: $(VENV)/.ready-dev ## the same with everything that tests and linters need

demo: $(VENV)/.ready ## train on handwritten digits, register the model, try it
	$(BIN)/python -m examples.demo

digits-data: $(VENV)/.ready ## write the handwritten digits as PNG into class folders: DIR=…
	$(BIN)/python -m examples.digits_data $(DIR)

examples: $(VENV)/.ready ## build every example's ZIP into dist/
	$(BIN)/python -m examples.build dist

image: ## the product's image: IMAGE=… BASE_IMAGE=… EXTRAS=kubernetes,torch CONTAINER_BUILDER=…
	@test -n "$(CONTAINER_BUILDER)" || { echo "docker, podman or buildah is needed: name one with CONTAINER_BUILDER=…"; exit 1; }
	$(CONTAINER_BUILDER) build -t $(IMAGE) -f deployments/image/Containerfile --build-arg BASE_IMAGE=$(BASE_IMAGE) --build-arg EXTRAS=$(EXTRAS) .

lint: $(VENV)/.ready-dev ## formatter, linters, types, import direction, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory check-generated

format: $(VENV)/.ready-dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(VENV)/.ready-dev services ## all tests that need no cluster
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not crash and not cluster" --require-every-code --durations=25

test-fast: $(VENV)/.ready-dev ## what needs no service and takes no time, in under a minute
	$(BIN)/python -m pytest -n 2 -q -m "not service and not crash and not slow and not cluster" tests/unit

test-crash: $(VENV)/.ready-dev services ## kill every process in every stage
	$(BIN)/python -m pytest -n 2 -m "crash and not cluster"

bench: $(VENV)/.ready-dev services ## speed, as ratios to named peers and floors
	$(BIN)/python -m benchmarks

generated: $(VENV)/.ready-dev ## regenerate JSON Schemas and the pages made from code
	$(BIN)/python -m contracts.schemas
	$(BIN)/python -m docs.build

check-generated: $(VENV)/.ready-dev ## fail where a generated file is not current
	$(BIN)/python -m contracts.schemas --check
	$(BIN)/python -m docs.build --check

constraints: ## resolve the pins again (needs uv)
	{ echo "# Every package the product and its tests resolve to, by version. Regenerate: make constraints"; \
	  uv pip compile pyproject.toml --extra dev --extra kubernetes --extra aws --extra postgres --universal \
	    --python-version 3.11 --no-annotate --no-header -q; } > constraints.txt.new
	mv constraints.txt.new constraints.txt
	{ echo "# What the optional groups torch and ultralytics add to constraints.txt. Regenerate: make constraints"; \
	  uv pip compile pyproject.toml --extra torch --extra ultralytics -c constraints.txt --universal \
	    --python-version 3.11 --no-annotate --no-header -q | sort | comm -13 <(sort constraints.txt) -; } > constraints-torch.txt.new
	mv constraints-torch.txt.new constraints-torch.txt
constraints: SHELL := /bin/bash

clean: ## remove what make and mtr made in this folder
	rm -rf $(VENV) .mtr build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
