# The targets of kubewarden/policies, and their prerequisites. Each target installs what it needs (the wasm toolchain,
# bats) where possible: with rustup, or with apt-get as root on Debian.

SOURCES := Cargo.toml Cargo.lock $(shell find src crates/admission/src crates/admission/Cargo.toml -type f)
# The tests and the host use one profile, in which wasmtime is optimized, so that it is built only once.
TARGET := $(or $(CARGO_TARGET_DIR),target)
HOST := $(TARGET)/debug/headroom-host
XTASK := $(TARGET)/debug/xtask
# Kubewarden's kwctl; where neither KWCTL nor PATH has one, our own host stands in.
KWCTL ?= $(shell command -v kwctl || echo $(HOST))

PAGE_PACKAGES := playground/site/node_modules/.package-lock.json

# The first build in a clean clone is not made again: without what a second one would use, it takes a tenth less.
ifeq ($(wildcard $(TARGET)/debug/incremental),)
test ci kubectl-headroom: export CARGO_INCREMENTAL := 0
endif

# `make test` and `make ci` lint the crates of the workspace while they build them for the tests, so that everything else is built
# once, for both. clippy-driver is clippy's compiler; cargo clippy gives it the same arguments.
# Their programs are those that `lint` built: for a program alone, whose crates have fewer features than with those of the
# tests, cargo builds tokio, hyper and kube a second time.
CARGO = $(LINTING) cargo
test ci: LINTING := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
# The profile is that of `cargo test`: what it optimizes besides is built once.
build = $(CARGO) build --locked --workspace --profile test $(if $(LINTING),--all-targets,--bin $1)

# What a contributor needs; `cargo xtask --help` lists the rest.
.PHONY: help
help:
	@echo "make demo               six admission requests, and what the policy does with each"
	@echo "make test               every test without a cluster: formats, lints, crates, wasm end to end, budgets"
	@echo "make crate-tests        the tests that need neither servers nor root, on every system"
	@echo "make fmt lint           formats and lints alone"
	@echo "make policy.wasm        the policy;  annotated-policy.wasm: with its metadata, ready for kwctl push"
	@echo "make e2e-tests          e2e.bats on kwctl, or on our own host if kwctl is not installed"
	@echo "make e2e-cluster        the policy at a real API server: that of KUBECONFIG, or one of the programs in KUBEBUILDER_ASSETS"
	@echo "make page               the page, a folder for any web host;  test-page: the page in Chromium"
	@echo "make kubectl-headroom   the kubectl plugin with the page inside"
	@echo "make docs               the documentation as a book, docs/book"
	@echo "make clean"

policy.wasm: $(SOURCES) scripts/build-wasm.sh scripts/wasm-toolchain.sh
	@scripts/build-wasm.sh $@

annotated-policy.wasm: policy.wasm policy-metadata.yaml $(wildcard README.md) | $(if $(filter $(HOST),$(KWCTL)),host)
	$(KWCTL) annotate -m policy-metadata.yaml $(patsubst %,-u %,$(wildcard README.md)) -o $@ policy.wasm

# Phony, because cargo tracks changes itself. `--workspace` enables the same features as for the tests, so that wasmtime
# is built only once.
.PHONY: host
host:
	$(call build,headroom-host)

# The programs that checks and the page need besides, each for itself.
.PHONY: xtask kubectl-headroom-debug headroom-controller-debug headroom-bench-debug playground-examples
xtask:
	$(call build,xtask)
kubectl-headroom-debug headroom-controller-debug headroom-bench-debug: %-debug:
	$(call build,$*)
playground-examples:
	$(call build,headroom-playground-examples)

# A new version needs CREATED_AT, a time in RFC 3339.
artifacthub-pkg.yml: policy-metadata.yaml deploy/questions-ui.yml | host
	$(HOST) artifacthub $(if $(CREATED_AT),--created-at $(CREATED_AT))

.PHONY: fmt
fmt:
	cargo fmt --all -- --check

.PHONY: lint
lint: $(PAGE_PACKAGES)
	$(if $(LINTING),$(call build),cargo clippy --locked --workspace --all-targets -- -D warnings)
	$(if $(LINTING),,$(call build,xtask))
	$(XTASK) tidy
	@# The fuzz targets have a lock file of their own, and a new dependency has to reach it.
	cargo fetch --locked --quiet --manifest-path tests/fuzz/Cargo.toml
	cd playground/site && npx --no-install biome ci .

# What the page is made of and checked with, by npm.
$(PAGE_PACKAGES): playground/site/package-lock.json
	scripts/setup-debian.sh npm
	cd playground/site && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

.PHONY: test
test: fmt lint unit-tests test-benches e2e-tests budgets test-docs test-deploy test-page
	@echo "make test: all tests passed"

.PHONY: unit-tests
unit-tests: policy.wasm test-servers
	if cargo nextest --version >/dev/null 2>&1; then $(CARGO) nextest run --config-file .cargo/nextest.toml --locked --workspace; \
	else $(CARGO) test --locked --workspace --lib --bins --tests; fi

# The tests that start no server and no browser: they run wherever Rust does, without root.
.PHONY: crate-tests
crate-tests: policy.wasm
	$(CARGO) test --locked --workspace --exclude headroom-bench --exclude headroom-cli --exclude headroom-metrics-stores --exclude headroom-e2e --lib --bins --tests

# The benches at a small size: they check what they measure, and have to run when somebody asks for figures.
.PHONY: test-benches
test-benches: test-servers headroom-bench-debug kubectl-headroom-debug headroom-controller-debug
	HEADROOM_BENCH_DAYS=4 HEADROOM_BENCH_WORKLOADS=20 $(TARGET)/debug/headroom-bench recommend
	$(TARGET)/debug/headroom-bench sizing 1,2

# Prometheus, InfluxDB and VictoriaMetrics, which tests start on loopback; and pre-commit, which runs our hook.
.PHONY: test-servers
test-servers:
	scripts/setup-debian.sh test-servers pre-commit

.PHONY: e2e-tests
e2e-tests: annotated-policy.wasm
	scripts/setup-debian.sh bats
	KWCTL=$(KWCTL) bats e2e.bats

# The page: its engine and its site, as a folder for any web host.
PAGE := $(abspath $(TARGET)/page)

.PHONY: page
page: xtask playground-examples $(PAGE_PACKAGES)
	scripts/build-playground.sh $(PAGE)/site

# The plugin with the embedded page, for `kubectl headroom ui`.
# PROFILE=dev is soon ready, and shares what the page's tools need; it runs slower.
.PHONY: kubectl-headroom
kubectl-headroom: PROFILE = native
kubectl-headroom: page
	HEADROOM_PAGE=$(PAGE)/site HEADROOM_COMMIT=$$(git rev-parse --short HEAD) cargo build --locked --profile $(PROFILE) $(if $(filter dev,$(PROFILE)),--workspace,--package headroom-cli) --bin kubectl-headroom

# Tests the page in Debian's Chromium, which is installed if missing. Screenshots are stored next to the site.
.PHONY: test-page
test-page: page kubectl-headroom-debug
	scripts/setup-debian.sh chromium
	$(TARGET)/debug/headroom-playground-examples --outcomes . >$(PAGE)/outcomes.json
	cd playground/site && PAGE=$(PAGE)/site OUTCOMES=$(PAGE)/outcomes.json SHOTS=$(PAGE)/screenshots PICTURES=$(abspath $(PICTURES)) PLUGIN=$(abspath $(TARGET))/debug/kubectl-headroom timeout 900 sh -c "node --test --test-concurrency=2 test/*.test.mjs && node --test test/speed.mjs"

# Tests of deployment and release, without publishing anything.
.PHONY: test-deploy
test-deploy: annotated-policy.wasm host xtask headroom-controller-debug
	$(XTASK) check chart $(HOST) annotated-policy.wasm $(TARGET)/debug/headroom-controller
	$(XTASK) check workflows
	$(CARGO) test --locked --workspace --test release -- --ignored

# The chart with default values, and the ledger alone, for `kubectl apply` and kustomize.
.PHONY: manifests
manifests: xtask
	$(XTASK) release manifests $(TARGET)/manifests

# The image of the controller, for this machine's architecture or PLATFORM=linux-arm64 or linux-amd64. `push` uploads the
# image and the policy to your own registry, such as REGISTRY=registry.example.com/headroom, after `docker login`, by skopeo
# and kwctl.
PLATFORM ?= $(if $(filter aarch64,$(shell uname -m)),linux-arm64,linux-amd64)
RUST_TARGET = $(if $(filter linux-arm64,$(PLATFORM)),aarch64,x86_64)-unknown-linux-gnu
.PHONY: image
image: page xtask
	scripts/setup-debian.sh buildah
	rm -rf $(TARGET)/image
	scripts/release.sh image $(TARGET)/image "$(PLATFORM)=$$(HEADROOM_PAGE=$(PAGE)/site scripts/release.sh build headroom-controller $(RUST_TARGET))"

.PHONY: push registry-is-named
registry-is-named:
	@test -n "$(REGISTRY)" || { echo "REGISTRY is required: make push REGISTRY=registry.example.com/headroom" >&2; exit 2; }
	@command -v kwctl >/dev/null || { echo "kwctl is missing, Kubewarden's program that pushes the policy: github.com/kubewarden/adm-controller" >&2; exit 2; }
push: registry-is-named annotated-policy.wasm image
	tag=v$$($(XTASK) release version) && \
	skopeo copy --all oci:$(TARGET)/image:$$tag docker://$(REGISTRY)/headroom-controller:$$tag && \
	kwctl push annotated-policy.wasm $(REGISTRY)/policies/headroom:$$tag

# Checks of the documentation that the Rust tests do not make; `docs` builds the book.
.PHONY: test-docs
test-docs: annotated-policy.wasm host xtask
	$(XTASK) check docs $(HOST) annotated-policy.wasm

.PHONY: docs
docs:
	"$$(scripts/setup-debian.sh mdbook)" build docs
	@echo "the book is docs/book/index.html"

# Install, upgrade and uninstall the chart, always on our own control plane.
.PHONY: e2e-chart
e2e-chart:
	scripts/test-chart-in-cluster.sh

# Everything that CI checks of a change. It fuzzes with one seed, so that a change is refused for what it does and not for luck; the
# weekly job looks further.
.PHONY: ci
ci: export FUZZ_SEED = 1
ci: test test-clean-clone fuzz
	@# The node's pods mostly wait: a quarter of an hour of two processor minutes.
	$(MAKE) --jobs=2 --output-sync=line LINTING='$(LINTING)' e2e-cluster e2e-node

# The policy is the same byte for byte from another clone and home; and the processor seconds of a first `make demo` and plugin.
.PHONY: test-clean-clone
test-clean-clone: policy.wasm
	scripts/test-clean-clone.sh policy.wasm

# Without KUBECONFIG, starts control planes of the programs in KUBEBUILDER_ASSETS, or else of programs that are built from Debian's
# packages, which takes some minutes the first time. With KUBECONFIG, we need
# administrator permissions including impersonation, `kubectl` in PATH, and for webhooks HEADROOM_WEBHOOK_HOST: a name or
# address by which the API server reaches this machine. Tests that need our own control plane (plugins switched off, a
# crash of the API server) start one in any case. With POLICY_SERVER, the path of Kubewarden's policy server, that answers and is
# compared with our host.
.PHONY: e2e-cluster
e2e-cluster: annotated-policy.wasm e2e-chart test-yaml
	scripts/control-plane.sh >/dev/null
	$(CARGO) test --locked --workspace --test cluster -- --ignored

# A node of our own with a real kubelet, whose kernel and disk are in the folder HEADROOM_NODE. Without it nothing is tested.
.PHONY: e2e-node
e2e-node: annotated-policy.wasm
	$(LINTING) scripts/e2e-node.sh

# Our YAML reader beside a real kubectl, HEADROOM_YAML_SNIPPETS=100000 for more.
.PHONY: test-yaml
test-yaml:
	KUBECTL="$$(scripts/setup-debian.sh kubectl)" $(CARGO) test --locked --workspace --test kubectl -- --ignored --nocapture

# Each fuzz target runs for its share of FUZZ_SECONDS; TARGETS="json quantity" runs only those.
.PHONY: fuzz
fuzz:
	scripts/fuzz.sh $(TARGETS)

# The programs as they are released, and what measures them.
.PHONY: bench-programs
bench-programs:
	cargo build --locked --profile native --package headroom-cli --package headroom-bench --bins

# 1,000 workloads with 14 days need 5 GB in the folder for temporary files; HEADROOM_BENCH_WORKLOADS=100 needs a tenth.
# SIZES=100,1000,5000 measures other clusters and only prints the table.
.PHONY: bench-recommend bench-estimates bench-resize sizing
bench-recommend: test-servers
bench-recommend bench-estimates bench-resize sizing: bench-programs
	$(TARGET)/native/headroom-bench $(@:bench-%=%) $(if $(filter sizing,$@),$(SIZES),$(TRACES))

.PHONY: bench-ledger
bench-ledger: bench-programs
	scripts/control-plane.sh >/dev/null
	HEADROOM_BENCH=$(abspath $(TARGET))/native cargo test --locked --workspace --test cluster -- --ignored --nocapture --test-threads=1 ledger::bench ledger::churn

# In Kubewarden's own policy server, which POLICY_SERVER names.
.PHONY: bench-policy-server
bench-policy-server: annotated-policy.wasm
	@test -n "$(POLICY_SERVER)" || { echo "POLICY_SERVER is required: the path of Kubewarden's policy server" >&2; exit 2; }
	scripts/control-plane.sh >/dev/null
	scripts/build-wasm.sh $(TARGET)/sdk-policy.wasm sdk-policy
	$(KWCTL) annotate -m policy-metadata.yaml -o $(TARGET)/annotated-sdk-policy.wasm $(TARGET)/sdk-policy.wasm
	SDK_POLICY=$(abspath $(TARGET))/annotated-sdk-policy.wasm $(CARGO) test --locked --workspace --test cluster -- --ignored --nocapture policy_server_bench

.PHONY: bench
bench: policy.wasm host
	$(HOST) bench policy.wasm $(if $(AGAINST),--against $(AGAINST))

.PHONY: budgets
budgets: policy.wasm host
	$(HOST) bench --check policy.wasm

# The demo must build fast for new users: its host has only an interpreter, which builds in a tenth of the time of wasmtime.
# A test compares the two.
.PHONY: demo
demo: policy.wasm
	@cargo build --locked --package headroom-wasm-host --no-default-features --features interpreter --bin headroom-host --profile demo
	@$(TARGET)/demo/headroom-host demo

# Records the session files of e2e.bats from the requests and objects of tests/data. Needed if the policy reads other objects.
.PHONY: sessions
sessions: annotated-policy.wasm host
	scripts/record-sessions.sh

.PHONY: clean
clean:
	cargo clean
	rm -f policy.wasm annotated-policy.wasm
