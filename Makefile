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
	@echo "make demo               six real requests through the policy, told in words"
	@echo "make test               every test without a cluster: formats, lints, crates, wasm end to end, budgets"
	@echo "make policy.wasm        the policy;  annotated-policy.wasm: with its metadata, ready for kwctl push"
	@echo "make e2e-tests          e2e.bats on kwctl, or on our own host where there is no kwctl"
	@echo "make e2e-cluster        the policy at a real API server: that of KUBECONFIG, or one built from Debian's packages"
	@echo "make bench              fuel, time and size;  make budgets: the budgets alone"
	@echo "make fuzz               random inputs that seek new ways through the code, FUZZ_SECONDS=60 in all"
	@echo "make bench-collect      what a month's collection costs, from files"
	@echo "make fmt lint clean"

policy.wasm: $(SOURCES) hack/build-wasm
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
test: fmt lint unit-tests e2e-tests budgets
	@echo "make test: all tests passed"

.PHONY: unit-tests
unit-tests: policy.wasm test-servers
	if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --locked --workspace; \
	else cargo test --locked --workspace --lib --bins --tests; fi
	cargo test --locked --workspace --doc

# Prometheus, InfluxDB and VictoriaMetrics, which the companion's tests start on loopback.
.PHONY: test-servers
test-servers:
	hack/install-test-servers.sh

.PHONY: e2e-tests
e2e-tests: annotated-policy.wasm
	hack/ensure-bats
	KWCTL=$(KWCTL) bats e2e.bats

# Without KUBECONFIG, builds and starts a control plane: some minutes the first time. A cluster given by KUBECONFIG needs
# an administrator's rights for us, impersonation among them, `kubectl` in PATH, and for webhooks HEADROOM_WEBHOOK_HOST:
# a name or address by which its API server reaches this machine. What only a control plane of our own can offer
# (plugins switched off, a crash of the API server) is tested on one all the same.
.PHONY: e2e-cluster
e2e-cluster: annotated-policy.wasm
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

.PHONY: bench
bench: policy.wasm host
	$(HOST) bench policy.wasm

.PHONY: budgets
budgets: policy.wasm host
	$(HOST) bench --check policy.wasm

.PHONY: demo
demo: annotated-policy.wasm host
	$(HOST) demo annotated-policy.wasm \
	  $(patsubst %,--cluster %,$(wildcard test_data/context/* test_data/demo/*)) \
	  $(REQUESTS)/pod-create-plain.json \
	  $(REQUESTS)/pod-create-invalid-after-default-limit.json \
	  $(REQUESTS)/statefulset-create-request-above-default-limit.json
	$(HOST) demo annotated-policy.wasm \
	  --cluster test_data/context/LimitRange.json --cluster test_data/context/Namespace.json \
	  --cluster test_data/nearly-full/ResourceQuota.yaml \
	  $(REQUESTS)/pod-create-job-owned.json \
	  $(REQUESTS)/deployment-create.json
	$(HOST) demo annotated-policy.wasm --settings-json '{"estimates": {"now": "2026-11-21T06:00:00Z"}}' \
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
