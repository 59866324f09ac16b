#!/usr/bin/env bash
# Fuzzes for FUZZ_SECONDS (60) in all, spread over the targets: those named, or each file in tests/fuzz/src/bin.
#
# The flags are what libFuzzer asks of a compiler (coverage of every edge, and of comparisons), and every stable rustc
# accepts them. A target starts from tests/fuzz/corpus/<target>, uses tests/fuzz/dictionaries/<target>.dict where there is one, and
# keeps new inputs in the target directory. A failing input is kept there too, and its path is printed. With FUZZ_SEED it tries the
# same inputs each time, and what it learnt before does not count.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'fuzz: %s\n' "$*" >&2; }

# The crate libfuzzer-sys compiles libFuzzer from C++.
scripts/setup-debian.sh c++

if [ $# = 0 ]; then
  for file in tests/fuzz/src/bin/*.rs; do set -- "$@" "$(basename "$file" .rs)"; done
fi
each=$(((${FUZZ_SECONDS:-60} + $# - 1) / $#))
target_dir=${CARGO_TARGET_DIR:-target}/fuzz
triple=$(rustc -vV | sed -n 's/^host: //p')

# Given with --target, the flags are for our code and not for build scripts.
RUSTFLAGS="-C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 \
  -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table \
  -C llvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing" \
  cargo build --release --locked --manifest-path tests/fuzz/Cargo.toml --bins --target "$triple" --target-dir "$target_dir"

for name; do
  learnt=$target_dir/corpus/$name
  [ -n "${FUZZ_SEED:-}" ] && learnt=$target_dir/corpus-of-seed/$name && rm -rf "$learnt"
  log=$target_dir/$name.log
  folders=("$learnt")
  mkdir -p "$learnt"
  options=(-max_total_time="$each" -timeout=30 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1
    -seed="${FUZZ_SEED:-0}" -artifact_prefix="$target_dir/$name-failed-")
  [ -f "tests/fuzz/dictionaries/$name.dict" ] && options+=(-dict="tests/fuzz/dictionaries/$name.dict")
  [ -d "tests/fuzz/corpus/$name" ] && folders+=("tests/fuzz/corpus/$name")
  say "$name: $each seconds"
  "$target_dir/$triple/release/$name" "${options[@]}" "${folders[@]}" >"$log" 2>&1 \
    || { tail -n 40 "$log" >&2; say "$name failed; full output in $log"; exit 1; }
  say "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs tried, $(ls "$learnt" | wc -l) kept"
done
say "no target failed"
