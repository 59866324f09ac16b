#!/usr/bin/env bash
# Builds the policy again, as somebody else would: from another clone, with another home, and without the compiler's own sources
# if rustup has the compiler. The module must be that of the first argument (policy.wasm), byte for byte.
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

# Nothing of the first build, and no wrapper that cargo may have for the workspace.
env -u RUSTC_WORKSPACE_WRAPPER HOME="$work/home" CARGO_HOME="$work/home/.cargo" CARGO_TARGET_DIR="$work/target" \
  "$work/clone/scripts/build-wasm.sh" "$work/policy.wasm"
cmp "$built" "$work/policy.wasm" || {
  diff <(strings "$built" | sort) <(strings "$work/policy.wasm" | sort) | head -20
  exit 1
}
echo "test-same-wasm: the same $(wc -c <"$built") bytes from another clone and home"
