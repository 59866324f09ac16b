#!/usr/bin/env bash
# Builds the policy again, as somebody else would: from another clone, with another home, and without the compiler's own sources
# if rustup has the compiler. The module must be that of the first argument (policy.wasm), byte for byte. Then builds what else a
# newcomer does, and prints the processor seconds of each: nothing is built before, and nothing fetched.
set -euo pipefail
cd "$(dirname "$0")/.."

built=$(realpath "${1:-policy.wasm}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/home/.cargo" "$work/clone" "$work/toolchain"/{bin,lib/rustlib}
git ls-files -z | xargs -0 cp --parents -t "$work/clone"
for kept in registry git bin config.toml; do
  [ ! -e "${CARGO_HOME:-$HOME/.cargo}/$kept" ] || ln -s "${CARGO_HOME:-$HOME/.cargo}/$kept" "$work/home/.cargo/$kept"
done
export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}

sysroot=$(rustc --print sysroot)
if [ -d "$sysroot/lib/rustlib/wasm32-wasip1" ]; then
  # The compiler finds its sysroot by its own place, so it is copied.
  cp "$sysroot/bin/rustc" "$work/toolchain/bin"
  cp "$sysroot"/lib/*.so* "$work/toolchain/lib"
  find "$sysroot/lib/rustlib" -mindepth 1 -maxdepth 1 ! -name src -exec ln -s -t "$work/toolchain/lib/rustlib" {} +
  export PATH=$work/toolchain/bin:$PATH RUSTC=$work/toolchain/bin/rustc
fi

# Nothing of the first build, and no wrapper that cargo may have.
unset RUSTC_WORKSPACE_WRAPPER RUSTC_WRAPPER
export HOME=$work/home CARGO_HOME=$work/home/.cargo CARGO_TARGET_DIR=$work/target CARGO_NET_OFFLINE=true
cd "$work/clone"

# Builds by a command, and leaves its processor seconds in `seconds`.
exec 3>/dev/null 4>&2
costs() {
  local TIMEFORMAT='%U %S'
  seconds=$({ time "$@" >&3 2>&4; } 2>&1 | awk '{ print int($1 + $2) }')
}

costs scripts/build-wasm.sh "$work/policy.wasm"
module=$seconds
cmp "$built" "$work/policy.wasm" || {
  diff <(strings "$built" | sort) <(strings "$work/policy.wasm" | sort) | head -20
  exit 1
}
echo "test-clean-clone: the same $(wc -c <"$built") bytes from another clone and home"
# make knows the module by its time.
cp "$work/policy.wasm" .
costs make --silent demo
echo "test-clean-clone: make demo takes $((module + seconds)) processor seconds, $module of them for the module"
# As `make kubectl-headroom PROFILE=dev` does where nothing was built.
costs env CARGO_INCREMENTAL=0 cargo build --quiet --locked --workspace --bin kubectl-headroom
echo "test-clean-clone: the plugin without the page, as developers build it, takes $seconds processor seconds"
