# Two commands do everything on a machine with Python 3.11 or newer, make and a package index:
# `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
OLDEST := .venv-oldest/bin
NEWEST := .ci/newest-python .venv-newest/bin
LOCK := requirements/lock.txt
ORDERS := 1 2 3 4 5 6 7 8 9 10
# The tests of a file often share a graded class, so they go to one process. There are two processes
# more than cores, because tests wait for kernels and limits; the slow files come first.
SIDE_BY_SIDE := -n $(shell expr 2 + $$(getconf _NPROCESSORS_ONLN)) --dist loadscope --no-loadscope-reorder

# A gradebook on a server, for all commands: make grade DB=postgresql://…
ifdef DB
export SHARDLINGS_DB := $(value DB)
endif

# What is given may be a name that a stranger chose: neither make nor the shell is to read it as more
# than a text. So it goes through the environment, from which $(call given,FILE) takes it, and
# $(call option,--student,STUDENT).
GIVEN := ASSIGNMENT STUDENT SCHEDULER WORKERS FROM TIMES ID NOTEBOOK FILE VISIBILITY
$(foreach name,$(GIVEN),$(eval export GIVEN_$(name) := $$(value $(name))))
unexport DB $(GIVEN)
given = $(if $(value $(1)),"$$GIVEN_$(1)")
option = $(if $(value $(2)),$(1)="$$GIVEN_$(2)")

# AGAIN=1 is $(call flag,--again,AGAIN). AGAIN=0 must not grade a whole class again.
flag = $(if $(filter-out 0 no false,$(value $(2))),$(1))

# What to grade, judge again, show, make pages of or release, where it is not everything.
SOME = $(call option,--assignment,ASSIGNMENT) $(call option,--student,STUDENT)

# A name that is misspelt on the command line would be passed over, and all of a class be graded.
KNOWN := $(GIVEN) SHELL DB AGAIN ALL BACK RELEASE CONTAINER PYTHON BIN OLDEST NEWEST LOCK ORDERS SIDE_BY_SIDE
TYPED := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
STRANGE := $(filter-out $(KNOWN) -*-command-variables-*- MAKEFLAGS MFLAGS MAKEOVERRIDES,$(TYPED))
$(if $(STRANGE),$(error $(firstword $(STRANGE))= is not known. There are \
$(patsubst %,%=,$(filter-out SHELL PYTHON BIN OLDEST NEWEST LOCK ORDERS SIDE_BY_SIDE,$(KNOWN)))))

.DEFAULT_GOAL := help
.PHONY: help collect gradescope withdraw grade regrade restore report feedback demo exercise try test test-all test-grading test-slow test-oldest test-newest test-orders test-colab test-hub lint lab site links release sync format lock benchmarks clean

help: ## Show what there is to make (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

grade: .venv/installed ## Grade what is new in grading/submitted/ (AGAIN=1: everything)
	@$(BIN)/python -m autograder.instructor grade $(call flag,--again,AGAIN) $(call option,--scheduler,SCHEDULER) $(call option,--workers,WORKERS) $(SOME)

regrade: .venv/installed ## Judge a class again from the evidence that was kept, after exercises changed
	@$(BIN)/python -m autograder.instructor regrade $(SOME)

report: .venv/installed ## Show a class as it stands, and write its CSVs and report again
	@$(BIN)/python -m autograder.instructor report $(SOME)

feedback: .venv/installed ## Make the feedback pages again (RELEASE=1: and put them into nbgrader's exchange)
	@$(BIN)/python -m autograder.instructor feedback $(call flag,--release,RELEASE) $(SOME)

demo: .venv/installed ## Grade five made-up students, in demo/ (ALL=1: over every notebook)
	@$(BIN)/python -m autograder.instructor demo $(call flag,--all,ALL)

collect: .venv/installed ## Take in a learning platform's zip file: FROM=…, TIMES=… (ASSIGNMENT=… if names do not say)
	@$(BIN)/python -m autograder.instructor collect "$$GIVEN_FROM" $(call option,--assignment,ASSIGNMENT) $(call option,--times,TIMES)

withdraw: .venv/installed ## Leave out a student who has left the class: STUDENT=… (BACK=1: take that back)
	@$(BIN)/python -m autograder.instructor withdraw $(call option,--student,STUDENT) $(call flag,--back,BACK)

gradescope: .venv/installed ## Write an autograder for Gradescope: ASSIGNMENT=… (VISIBILITY=…, CONTAINER=1)
	@$(BIN)/python -m autograder.instructor gradescope $(call option,--assignment,ASSIGNMENT) $(call option,--visibility,VISIBILITY) $(call flag,--container-is-sandbox,CONTAINER)

restore: .venv/installed ## Put the gradebook back as it was: FROM=grading/backups/… (without: what there is)
	@$(BIN)/python -m autograder.instructor restore $(call given,FROM)

# Contributors run this, so it has to be short: of long lists it tests one in thirty, sampled by a seed
# that it prints, and it leaves the slow tests to test-all. A commit has one seed, so that whoever tests it
# tries the same cases; the next commit has others.
test test-oldest test-newest test-orders: export SHARDLINGS_EVERY ?= 30
test test-oldest test-newest test-orders: export SHARDLINGS_SEED ?= $(shell printf %d "0x$$(git rev-parse --short=6 HEAD 2>/dev/null)" 2>/dev/null)

test: .venv/installed lint ## Lint, format, types, and what most changes can break: the newest supported JAX
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not crowded"

test-all: .venv/installed lint ## The same, and every test there is, of everything
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-grading: .venv/installed ## What make test leaves out of grading: slow tests, all attacks, kills, releases
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "(slow or sampled) and not crowded" tests/instructor

test-orders: .venv/installed ## What make test runs, in ten other orders (ORDERS="1 2": those two)
	for order in $(ORDERS); do \
		$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not crowded" -p randomly -p no:cacheprovider \
			--randomly-seed=$$order || exit 1; done

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/mypy

test-slow: .venv/installed ## The slow tests of everything else: released notebooks, the site, pictures in a browser
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "slow and not crowded" --ignore=tests/instructor --ignore=tests/exercises/test_many_seeds.py

test-library: .venv/installed ## The library's tests from its wheel, where nothing of the course is installed
	$(BIN)/python .ci/as_another_project.py

test-oldest: .venv-oldest/installed ## The package's tests and the bank on the oldest supported JAX
	$(OLDEST)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not crowded" --ignore=tests/instructor

test-newest: .venv-newest/installed ## The same on the newest JAX, on the newest Python that it runs on
	$(NEWEST)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not crowded" --ignore=tests/instructor

test-colab: .venv-colab/installed ## Every notebook on the newest JAX, where its first cell installs the package
	SHARDLINGS_SOURCE="$(CURDIR)[course]" .ci/newest-python .venv-colab/bin/python .ci/as_in_colab.py

test-hub: .venv-hub/installed ## A class on a real JupyterHub, from fetching a notebook to its feedback
	.venv-hub/bin/python -m pytest tests/instructor/test_jupyterhub.py

lab: .venv/installed ## Open the course in JupyterLab
	JUPYTER_CONFIG_PATH="$(CURDIR)/requirements/lab" $(BIN)/jupyter lab course

site: .venv/installed ## Build the course on the web, into site/
	$(BIN)/python -m website

links: .venv/installed ## Try each link of the site that leads elsewhere
	$(BIN)/python -m website --builder linkcheck

release: .venv/installed ## Make course/ from solutions/
	@$(BIN)/python -m autograder.instructor release $(SOME)

exercise: .venv/installed ## Write the stubs of a new exercise: ID=1.9, and NOTEBOOK=… where it is the first
	@$(BIN)/python -m autograder.instructor exercise $(call given,ID) $(call option,--notebook,NOTEBOOK)

try: .venv/installed ## Show the verdict on each answer in a file: FILE=answer.py, and ID=1.9 if it does not say
	@$(BIN)/python -m autograder.instructor try $(call given,FILE) $(call option,--exercise,ID)

sync: .venv/installed ## Bring each solution notebook and its text twin in step
	$(BIN)/jupytext --sync solutions/*/*.ipynb

format: .venv/installed ## Format the code and the notebooks
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: .venv/installed ## Write the lock files anew from pyproject.toml
	$(BIN)/uv pip compile -q --universal --fork-strategy fewest --no-emit-package shardlings --no-header --upgrade \
		--extra dev pyproject.toml -o $(LOCK)
	$(BIN)/uv pip compile -q --universal --fork-strategy fewest --no-emit-package shardlings --no-header --upgrade \
		--extra oldest pyproject.toml -o requirements/oldest.txt
	$(BIN)/uv pip compile -q --universal --fork-strategy fewest --no-emit-package shardlings --no-header --upgrade \
		--extra test --python-version 3.12 pyproject.toml -o requirements/newest.txt

benchmarks: .venv/installed ## Measure what docs/reference.md says (many hours; mutants.py, a night, is apart)
	@missed=; for benchmark in $(filter-out benchmarks/mutants.py,$(wildcard benchmarks/*.py)); do \
		echo "$$benchmark:"; $(BIN)/python $$benchmark || missed="$$missed $$benchmark"; done; \
	if [ "$$missed" ]; then echo "Not what was asked:$$missed"; exit 1; fi

clean: ## Remove the environments; the class's grades stay
	rm -rf .venv .venv-oldest .venv-newest .venv-newest-system* .venv-colab .venv-hub

# Each environment is made by $(call install,what to install besides the package,in which versions).
install = @PYTHON='$(PYTHON)' sh requirements/install.sh $(@D) $(1) $(2)

.venv/installed: pyproject.toml $(LOCK)
	$(call install,dev,$(LOCK))

.venv-oldest/installed: pyproject.toml requirements/oldest.txt
	$(call install,oldest,requirements/oldest.txt)

.venv-hub/installed: pyproject.toml $(LOCK)
	@PYTHON='$(PYTHON)' sh requirements/install.sh $(@D) hub,test $(LOCK)

.venv-newest/installed: pyproject.toml requirements/newest.txt
	@WITHIN=.ci/newest-python PYTHON=python sh requirements/install.sh $(@D) test requirements/newest.txt

# As in Colab: a kernel, and nothing of ours. It is made anew each time, or it would be there already.
.PHONY: .venv-colab/installed
.venv-colab/installed:
	@.ci/newest-python python -m venv --clear $(@D)
	@.ci/newest-python $(@D)/bin/python -m pip install --quiet --disable-pip-version-check nbclient ipykernel
