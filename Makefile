# The targets of kubewarden/policies, and what a fresh machine needs before them. Each target sets up what it lacks
# (the wasm toolchain, bats) where it can: with rustup, or with apt-get as root on Debian.

SOURCES := Cargo.toml Cargo.lock $(shell find src crates/core/src crates/core/Cargo.toml -type f)
# One profile builds the tests and the host: wasmtime is optimized in it, and is built only once.
TARGET := $(or $(CARGO_TARGET_DIR),target)
HOST := $(TARGET)/debug/headroom-host
KWCTL ?= $(shell command -v kwctl || echo $(HOST))
REQUESTS := test_data/requests

.PHONY: help
help:
	@echo "make demo               sends six admission requests to the policy and explains the answers"
	@echo "make test               every test without a cluster: formats, lints, crates, wasm end to end, budgets"
	@echo "make policy.wasm        the policy;  annotated-policy.wasm: with its metadata, ready for kwctl push"
	@echo "make e2e-tests          e2e.bats on kwctl, or on our own host where there is no kwctl"
	@echo "make page               the page, a folder for any web host;  test-page: the page in Chromium"
	@echo "make test-deploy        the Helm chart, alerts, dashboard, workflows and release scripts;  e2e-chart: the chart at a real API server"
	@echo "make image              the companion's OCI image, without a container runtime;  push REGISTRY=...: it and the policy"
	@echo "make docs               the documentation as a book, docs/book;  test-docs: its links, commands and examples"
	@echo "make e2e-cluster        the policy at a real API server: that of KUBECONFIG, or one built from Debian's packages"
	@echo "make bench              fuel, time and size;  make budgets: the budgets alone"
	@echo "make fuzz               random inputs that seek new ways through the code, FUZZ_SECONDS=60 in all"
	@echo "make bench-collect      what a month's collection costs, from files"
	@echo "make bench-scan         what a scan of 1,000 workloads costs, at a real Prometheus"
	@echo "make bench-estimates    how good estimates are, on recorded usage: TRACES=folder"
	@echo "make bench-ledger       latency and throughput of the ledger at a real API server"
	@echo "make fmt lint clean"

policy.wasm: $(SOURCES) hack/build-wasm hack/wasm-toolchain.sh
	hack/build-wasm $@

annotated-policy.wasm: policy.wasm policy-metadata.yaml $(wildcard README.md) | host
	$(KWCTL) annotate -m policy-metadata.yaml $(patsubst %,-u %,$(wildcard README.md)) -o $@ policy.wasm

# Cargo knows whether there is anything to do. `--workspace` chooses the features that the tests are built with, or
# wasmtime would be built twice.
.PHONY: host
host:
	cargo build --locked --workspace --bin headroom-host

# A new version needs CREATED_AT, a time in RFC 3339.
artifacthub-pkg.yml: policy-metadata.yaml questions-ui.yml | host
	$(HOST) artifacthub $(if $(CREATED_AT),--created-at $(CREATED_AT))

.PHONY: fmt
fmt:
	cargo fmt --all -- --check

.PHONY: lint
lint:
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: test
test: fmt lint unit-tests test-benches e2e-tests budgets test-docs test-deploy test-page
	@echo "make test: all tests passed"

.PHONY: unit-tests
unit-tests: policy.wasm test-servers browser
	if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --locked --workspace; \
	else cargo test --locked --workspace --lib --bins --tests; fi
	cargo test --locked --workspace --doc

# The benches at a small size: they check what they measure, and have to run when somebody asks for figures.
.PHONY: test-benches
test-benches: test-servers
	HEADROOM_BENCH_DAYS=1 HEADROOM_BENCH_CONTAINERS=100 HEADROOM_BENCH_WORKLOADS=20 \
	  cargo bench --locked --workspace --profile dev --bench collect --bench prometheus --bench scan

# Prometheus, InfluxDB and VictoriaMetrics, which the companion's tests start on loopback.
.PHONY: test-servers
test-servers:
	hack/install-test-servers.sh

# Chromium, in which the page of `kubectl headroom scan -o html` is opened.
.PHONY: browser
browser:
	hack/ensure-chromium

.PHONY: e2e-tests
e2e-tests: annotated-policy.wasm
	hack/ensure-bats
	KWCTL=$(KWCTL) bats e2e.bats

# The page: its engine, and the site around it. A folder that any web host serves.
PAGE := $(abspath $(TARGET)/page)

.PHONY: page
page:
	hack/build-page $(PAGE)/site

# kubectl headroom with the page inside, for `kubectl headroom ui`.
.PHONY: companion
companion: page
	HEADROOM_PAGE=$(PAGE)/site cargo build --locked --profile native --package headroom-companion --bin kubectl-headroom

# In Debian's Chromium, which is installed where it is missing; screenshots are left beside the site.
.PHONY: test-page
test-page: page
	hack/ensure-chromium
	cargo build --locked --workspace --bin kubectl-headroom
	$(TARGET)/debug/headroom-page-examples --outcomes . >$(PAGE)/outcomes.json
	cd page/site && PAGE=$(PAGE)/site OUTCOMES=$(PAGE)/outcomes.json SHOTS=$(PAGE)/screenshots COMPANION=$(abspath $(TARGET))/debug/kubectl-headroom timeout 900 node --test test/page.test.mjs

# What is deployed and released, as far as it can be tested without building or publishing anything.
.PHONY: test-deploy
test-deploy: annotated-policy.wasm host
	cargo build --locked --workspace --bin kubectl-headroom
	hack/test-chart $(HOST) annotated-policy.wasm $(TARGET)/debug/kubectl-headroom
	hack/test-monitoring $(TARGET)/debug/kubectl-headroom
	hack/test-image $(HOST) annotated-policy.wasm $(TARGET)/debug/kubectl-headroom
	hack/test-release

# The image of a release build, for this machine's architecture or PLATFORM=linux-arm64 or linux-amd64. `push` uploads it and the policy to a registry of yours, such as
# REGISTRY=registry.example.com/headroom, which `skopeo login` or `docker login` has logged in to.
PLATFORM ?= $(if $(filter aarch64,$(shell uname -m)),linux-arm64,linux-amd64)
.PHONY: image
image:
	rm -rf $(TARGET)/image
	hack/release/oci image \
	  "$$(hack/release/build-companion $(if $(filter linux-arm64,$(PLATFORM)),aarch64,x86_64)-unknown-linux-gnu)" $(PLATFORM) $(TARGET)/image

.PHONY: push registry-is-named
registry-is-named:
	@test -n "$(REGISTRY)" || { echo "say where to: make push REGISTRY=registry.example.com/headroom" >&2; exit 2; }
push: registry-is-named annotated-policy.wasm image
	rm -rf $(TARGET)/policy
	hack/release/oci policy annotated-policy.wasm $(TARGET)/policy
	hack/release/push $(TARGET)/policy $(REGISTRY)/policies/headroom
	hack/release/push $(TARGET)/image $(REGISTRY)/kubectl-headroom

# What the tests in Rust do not check of the documentation; `docs` builds the book.
.PHONY: test-docs
test-docs: annotated-policy.wasm host
	hack/ensure-python-yaml
	hack/check-docs "$$(hack/get-helm)" $(HOST) annotated-policy.wasm

.PHONY: docs
docs:
	"$$(hack/ensure-mdbook)" build docs
	@echo "the book is docs/book/index.html"

# Install, upgrade and uninstall, always at a control plane of our own.
.PHONY: e2e-chart
e2e-chart:
	hack/test-chart-in-cluster

# Without KUBECONFIG, builds and starts a control plane: some minutes the first time. A cluster given by KUBECONFIG needs
# an administrator's rights for us, impersonation among them, `kubectl` in PATH, and for webhooks HEADROOM_WEBHOOK_HOST:
# a name or address by which its API server reaches this machine. What only a control plane of our own can offer
# (plugins switched off, a crash of the API server) is tested on one all the same.
.PHONY: e2e-cluster
e2e-cluster: annotated-policy.wasm e2e-chart
	hack/control-plane.sh >/dev/null
	cargo test --locked --workspace --test cluster -- --ignored

# Each target tries inputs for its share of FUZZ_SECONDS; TARGETS="json quantity" tries only those.
.PHONY: fuzz
fuzz:
	hack/fuzz $(TARGETS)

# A month of 1,000 containers needs 4 GB in the folder for temporary files; HEADROOM_BENCH_DAYS=3 needs a tenth.
.PHONY: bench-collect
bench-collect:
	cargo bench --locked --profile native --package headroom-companion --bench collect
	cargo bench --locked --profile native --package headroom-companion --bench prometheus

# 1,000 workloads with 14 days need 5 GB in the folder for temporary files; HEADROOM_BENCH_WORKLOADS=100 needs a tenth.
.PHONY: bench-scan
bench-scan: test-servers
	cargo bench --locked --profile native --package headroom-companion --bench scan

.PHONY: bench-estimates
bench-estimates:
	TRACES="$(abspath $(TRACES))" cargo bench --locked --profile native --package headroom-companion --bench estimates

.PHONY: bench-ledger
bench-ledger:
	hack/control-plane.sh >/dev/null
	HEADROOM_BENCH=1 cargo test --locked --workspace --test cluster -- --ignored --nocapture ledger::bench

.PHONY: bench
bench: policy.wasm host
	$(HOST) bench policy.wasm

.PHONY: budgets
budgets: policy.wasm host
	$(HOST) bench --check policy.wasm

# What a stranger runs first has to be ready soon: the host is built with an interpreter alone, in a tenth of the time that wasmtime
# takes. A test holds the two against each other.
DEMO_HOST := $(TARGET)/demo/headroom-host
.PHONY: demo
demo: policy.wasm
	cargo build --locked --package headroom-testkit --no-default-features --features interpreter --bin headroom-host --profile demo
	$(DEMO_HOST) annotate -m policy-metadata.yaml -o $(TARGET)/demo/policy.wasm policy.wasm
	$(DEMO_HOST) demo $(TARGET)/demo/policy.wasm \
	  $(patsubst %,--cluster %,$(wildcard test_data/context/* test_data/demo/*)) \
	  $(REQUESTS)/pod-create-plain.json \
	  $(REQUESTS)/pod-create-invalid-after-default-limit.json \
	  $(REQUESTS)/statefulset-create-request-above-default-limit.json
	$(DEMO_HOST) demo $(TARGET)/demo/policy.wasm \
	  --cluster test_data/context/LimitRange.json --cluster test_data/context/Namespace.json \
	  --cluster test_data/nearly-full/ResourceQuota.yaml \
	  $(REQUESTS)/pod-create-job-owned.json \
	  $(REQUESTS)/deployment-create.json
	$(DEMO_HOST) demo $(TARGET)/demo/policy.wasm --settings-json '{"estimates": {"now": "2026-11-21T06:00:00Z"}}' \
	  $(patsubst %,--cluster %,$(wildcard test_data/context/* test_data/demo/*) test_data/usage/own.yaml) \
	  $(REQUESTS)/pod-create-plain.json

# After a change of what the policy reads: the session files of e2e.bats, from the requests and objects of test_data.
.PHONY: sessions
sessions: annotated-policy.wasm host
	hack/record-sessions

.PHONY: clean
clean:
	cargo clean
	rm -f policy.wasm annotated-policy.wasm
