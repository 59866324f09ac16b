# The targets of kubewarden/policies, and what a fresh machine needs before them. Each target sets up what it lacks
# (the wasm toolchain, bats) where it can: with rustup, or with apt-get as root on Debian.

SOURCES := Cargo.toml Cargo.lock $(shell find src crates/core/src crates/core/Cargo.toml -type f)
# One profile builds the tests and the host: wasmtime is optimized in it, and is built only once.
HOST := target/debug/headroom-host
KWCTL ?= $(shell command -v kwctl || echo $(HOST))
REQUESTS := test_data/requests

.PHONY: help
help:
	@echo "make demo               three real requests through the policy, told in words"
	@echo "make test               every test: formats, lints, crates, wasm end to end, budgets"
	@echo "make policy.wasm        the policy;  annotated-policy.wasm: with its metadata, ready for kwctl push"
	@echo "make e2e-tests          e2e.bats on kwctl, or on our own host where there is no kwctl"
	@echo "make e2e-cluster        the policy at a real API server: that of KUBECONFIG, or one built from Debian's packages"
	@echo "make bench              fuel, time and size;  make budgets: the budgets alone"
	@echo "make fmt lint clean"

policy.wasm: $(SOURCES) hack/build-wasm
	hack/build-wasm $@

annotated-policy.wasm: policy.wasm policy-metadata.yaml $(wildcard README.md) | host
	$(KWCTL) annotate -m policy-metadata.yaml $(patsubst %,-u %,$(wildcard README.md)) -o $@ policy.wasm

# Cargo knows whether there is anything to do.
.PHONY: host
host:
	cargo build --locked --package headroom-testkit --bin headroom-host

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
unit-tests: policy.wasm
	if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --locked --workspace; \
	else cargo test --locked --workspace --lib --bins --tests; fi
	cargo test --locked --workspace --doc

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
	cargo test --locked --package headroom-cluster-tests -- --ignored

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

# After a change of what the policy reads: the session files of e2e.bats, from the requests and objects of test_data.
.PHONY: sessions
sessions: annotated-policy.wasm host
	hack/record-sessions

.PHONY: clean
clean:
	cargo clean
	rm -f policy.wasm annotated-policy.wasm
