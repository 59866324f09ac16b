# What building for a wasm $target takes, with rustup's compiler or Debian's; for scripts/build-wasm.sh and scripts/build-playground.sh, which source it
# and have `say`.

has_rustup_target() {
  command -v rustc >/dev/null && [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]
}

add_rustup_target() {
  command -v rustup >/dev/null || return 1
  say "adding the target $target with rustup"
  timeout 120 rustup target add "$target" >&2
}

has_rustup_sources() {
  command -v rustup >/dev/null && [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]
}

add_rustup_sources() {
  command -v rustup >/dev/null || return 1
  say "adding the sources of the standard library with rustup"
  timeout 120 rustup component add rust-src >&2
}

# Debian's compiler comes as /usr/bin/rustc, of rustc-web or of a newer rustc with the sources beside it. Package lists of
# months ago have one that is too old for the workspace.
has_debian_rustc() {
  local wanted found
  [ -x /usr/bin/rustc ] && [ -d "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library" ] || return 1
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  found=$(/usr/bin/rustc --version | cut -d ' ' -f 2)
  [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ]
}

# Installs packages of Debian as its mirrors have them now.
apt_install() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || { say "not root on Debian: cannot install $*"; return 1; }
  say "installing $* with apt-get"
  apt-get update -qq >&2 || say "apt-get update failed; trying the package lists that are here"
  apt-get install -y -qq --no-install-recommends "$@" >&2
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

# The same module wherever it is built: a compiler names the places of its own sources, where they are installed, and of the
# crates in cargo's home. Adds to $flags.
remap_paths() {
  local sources std
  sources=$("$1" --print sysroot)/lib/rustlib/src/rust
  std=/rustc/$("$1" -vV | sed -n 's/^commit-hash: //p')
  flags+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
  flags+=" --remap-path-prefix=$(realpath -m "$sources")=$std --remap-path-prefix=$sources=$std"
}
