#!/bin/bash
# Keeps of what the fuzzer has found only what reaches code that nothing smaller reaches.
#
#   tests/fuzz/minimise.sh [TARGET...]     all targets without an argument
#
# The corpus of a target (tests/fuzz/corpus, not in git) becomes as small as libFuzzer can
# make it. The smallest inputs that reach more than the seeds made by hand go to
# tests/fuzz/seeds/TARGET/found-*, where the unit tests use them, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
export RUSTC_BOOTSTRAP=1

# At most so many inputs of a target, of so many bytes each, are kept: whoever clones the
# repository gets them all.
most=12
longest=2048

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fill TARGET OUT IN...: adds to OUT the files of IN that reach more than OUT does.
fill() {
  cargo fuzz run --fuzz-dir tests/fuzz "$1" "${@:2}" -- -merge=1 -timeout=10 > "$work/log" 2>&1 ||
    { tail -20 "$work/log" >&2; return 1; }
}

minimise() { # TARGET
  local target=$1 seeds=tests/fuzz/seeds/$1 corpus=tests/fuzz/corpus/$1 file
  rm -rf "$work/small" "$work/found"
  mkdir -p "$corpus" "$work/small" "$work/found"
  fill "$target" "$work/small" "$corpus" "$seeds"
  rm -rf "$corpus"
  cp -r "$work/small" "$corpus"

  find "$seeds" -type f ! -name 'found-*' -exec cp -t "$work/found" {} +
  find "$work/found" -type f | sort > "$work/by-hand"
  fill "$target" "$work/found" "$work/small"
  rm -f "$seeds"/found-*
  find "$work/found" -type f -size "-$((longest + 1))c" -printf '%s %p\n' | sort -n | cut -d' ' -f2- |
    grep -vxFf "$work/by-hand" | head -n "$most" > "$work/kept" || true
  while read -r file; do
    cp "$file" "$seeds/found-$(basename "$file" | cut -c1-12)"
  done < "$work/kept"
  echo "$target: $(find "$corpus" -type f | wc -l) in the corpus, $(wc -l < "$work/kept") among the seeds"
}

for target in ${@:-$(cargo fuzz list --fuzz-dir tests/fuzz)}; do
  minimise "$target"
done
