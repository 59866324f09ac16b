# What building for a wasm $target takes, with rustup's compiler or Debian's; for hack/build-wasm and hack/build-page, which source it
# and have `say`.

has_rustup_target() {
  command -v rustc >/dev/null && [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]
}

add_rustup_target() {
  command -v rustup >/dev/null || return 1
  say "adding the target $target with rustup"
  timeout 120 rustup target add "$target" >&2
}

rust_lld() {
  local host sysroot
  host=$(rustc -vV | sed -n 's/^host: //p')
  sysroot=$(rustc --print sysroot)
  for candidate in "$sysroot/lib/rustlib/$host/bin/rust-lld" "$(command -v wasm-ld || true)" "$(command -v rust-lld || true)"; do
    [ -n "$candidate" ] && [ -x "$candidate" ] && { echo "$candidate"; return; }
  done
  say "no rust-lld beside $(command -v rustc), and no wasm-ld"
  return 1
}

# A compiler whose own sources are installed names their place, which would make another module on another machine. Adds to $flags.
remap_std() {
  local sources
  sources=$("$1" --print sysroot)/lib/rustlib/src/rust
  flags+=" --remap-path-prefix=$(realpath -m "$sources")=rust --remap-path-prefix=$sources=rust"
}
