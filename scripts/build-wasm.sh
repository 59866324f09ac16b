#!/usr/bin/env bash
# Builds the policy for wasm32-wasip1, or `sdk-policy` where that is named, and copies it to the path given (default policy.wasm).
# `sdk-policy` is built as Kubewarden's template builds a policy: with cargo's own release profile, and nothing after it.
#
# Two ways lead to the same module. Where rustup has the target, or can download it, the workspace's own
# toolchain builds it. Where it cannot (a machine with nothing but Debian's packages), Debian's rustc-web
# builds the standard library from source; that compiler is set for this one command only, and builds in a
# target directory of its own, so the workspace's toolchain and its caches stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${1:-policy.wasm} program=${2:-headroom-policy}
profile=policy
[ "$program" = headroom-policy ] || profile=release
target=wasm32-wasip1
target_dir=${CARGO_TARGET_DIR:-target}/wasm

say() { printf 'build-wasm: %s\n' "$*" >&2; }
source scripts/wasm-toolchain.sh

has_debian_toolchain() {
  has_debian_rustc && [ -f /usr/lib/wasm32-wasi/libc.a ]
}

# Inlining less takes a tenth off the size for a fiftieth more instructions; vectors take a twentieth off those, most of
# which go over text (`make bench`). Every wasmtime of the last years runs them unasked.
flags="-C llvm-args=--inline-threshold=120 -C target-feature=+simd128"

build=(cargo build --profile "$profile" --locked --package headroom-policy --bin "$program"
  --target "$target" --target-dir "$target_dir")
if [ "$program" != headroom-policy ]; then
  flags=
  build+=(--features "$program")
  for setting in lto=false codegen-units=16 opt-level=3 overflow-checks=false 'strip="none"'; do
    build+=(--config "profile.release.$setting")
  done
fi

if has_rustup_target || { ! has_debian_toolchain && add_rustup_target && has_rustup_target; }; then
  remap_paths rustc
  CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$flags" "${build[@]}"
elif has_debian_toolchain || { apt_install rustc-web rust-web-src wasi-libc && has_debian_toolchain; }; then
  remap_paths /usr/bin/rustc
  RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc \
    CARGO_TARGET_WASM32_WASIP1_LINKER="$(rust_lld)" \
    CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="-L native=/usr/lib/wasm32-wasi -C link-self-contained=no $flags" \
    "${build[@]}" -Zbuild-std=std,panic_abort
else
  say "no way to build for $target: install it with 'rustup target add $target'"
  exit 1
fi

# Binaryen takes 7 % off the size and 4 % off the instructions that the compiler leaves. The first kilobyte of memory is the
# end of the stack, which nothing points into.
built=$target_dir/$target/$profile/$program.wasm
if [ "$program" != headroom-policy ]; then
  cp "$built" "$output"
elif command -v wasm-opt >/dev/null || apt_install binaryen; then
  wasm-opt -O3 --low-memory-unused --enable-simd --enable-bulk-memory --enable-sign-ext --enable-mutable-globals \
    --enable-nontrapping-float-to-int --enable-multivalue --enable-reference-types "$built" -o "$output"
else
  say "no wasm-opt: the module works, but is larger and slower than a release; install binaryen for it"
  cp "$built" "$output"
fi
say "$output: $(wc -c <"$output") bytes"
