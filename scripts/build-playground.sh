#!/usr/bin/env bash
# Builds the page into a folder (default target/page/site): the engine as wasm, the JavaScript around it, the examples,
# and the site that any web host can serve. The same sources and toolchain give the same bytes.
#
# The standard library is built with the engine, from the sources that rustup has beside its compiler or Debian beside rustc-web:
# so a panic aborts at once instead of preparing a text that no browser shows, and sorts and maps, which the engine has for many
# types, are the small ones. Together that takes an eighth off the module.
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-unknown-unknown
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
output=$(realpath -m "${1:-$target_dir/page/site}")
site=playground/site

say() { printf 'build-playground: %s\n' "$*" >&2; }
source scripts/wasm-toolchain.sh

# No path of this machine may be in the module: it would be another module elsewhere. Without reference types, because Debian's
# wasm-opt confuses their tables.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
flags="--remap-path-prefix=$PWD=headroom --remap-path-prefix=$cargo_home/registry/src=crates -C target-feature=+simd128,-reference-types"
flags+=" -Zunstable-options -Cpanic=immediate-abort"
build=(cargo build --profile page --locked --package headroom-playground --lib --target "$target" --target-dir "$target_dir/page"
  -Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size)
export RUSTC_BOOTSTRAP=1

if has_rustup_sources || { ! has_debian_rustc && add_rustup_sources && has_rustup_sources; }; then
  remap_paths rustc
  CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$flags" "${build[@]}"
elif has_debian_rustc || { apt_install rustc-web rust-web-src && has_debian_rustc; }; then
  remap_paths /usr/bin/rustc
  RUSTC=/usr/bin/rustc CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$(rust_lld)" \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$flags" "${build[@]}"
else
  say "no sources of the standard library: install them with 'rustup component add rust-src'"
  exit 1
fi
unset RUSTC_BOOTSTRAP

rm -rf "$site/engine"
# `make page` has built it.
"$target_dir/debug/xtask" bindgen "$target_dir/page/$target/page/headroom_playground.wasm" "$site/engine"

command -v wasm-opt >/dev/null || apt_install binaryen
# Without inlining into the only caller: that makes the module a fortieth smaller, and a tenth larger where it is compressed,
# which is how it is downloaded. The other passes take off a hundredth. The lowest KiB of
# memory is the end of the stack, which nothing reaches.
wasm-opt --flatten --rereloop --simplify-locals --coalesce-locals -Oz -Oz --low-memory-unused --one-caller-inline-max-function-size=0 \
  --enable-simd --enable-bulk-memory --enable-sign-ext --enable-mutable-globals --enable-nontrapping-float-to-int \
  "$site/engine/engine_bg.wasm" -o "$site/engine/engine_bg.wasm.small"
mv "$site/engine/engine_bg.wasm.small" "$site/engine/engine_bg.wasm"

# `make page` has built it.
"$target_dir/debug/headroom-playground-examples" . >"$site/engine/examples.json"
cargo tree --locked --package headroom-playground --edges normal --target "$target" --prefix none --format '{p}: {l}' \
  | sed -e 's/ ([^)]*)//g' -e '/^headroom-/d' -e 's/^\([^ ]*\) v/\1 /' | sort -u >"$site/engine/licences.txt"

cd "$site"
npx --no-install tsc --project tsconfig.json
node build.mjs "$output"
for path in "$OLDPWD" "$target_dir" "$cargo_home" "$HOME/" /usr/src/ /lib/rustlib/; do
  ! grep -qrF -e "$path" "$output" || { say "a file of the page names $path, so another machine would build another page"; exit 1; }
done
say "$output: engine $(wc -c <"$output/engine_bg.wasm") bytes, everything $(cat "$output"/* | wc -c) bytes, $(cat "$output"/* | gzip -9 | wc -c) compressed"
