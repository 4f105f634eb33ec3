#!/bin/bash
# Minimises the corpora: of all inputs that the fuzzer has found, keeps only those that
# reach code that no smaller input reaches.
#
#   tests/fuzz/minimise.sh [TARGET...]     all targets without an argument
#
# The corpus of a target (tests/fuzz/corpus, not in git) becomes as small as libFuzzer
# can make it. The smallest inputs that reach more code than the hand-written seeds go
# to tests/fuzz/seeds/TARGET/found-*, where the unit tests use them, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
export RUSTC_BOOTSTRAP=1

# The limits for found-*: the number of inputs of one target, and the size of an input
# in bytes. Everybody who clones the repository downloads these inputs.
most=12
longest=2048

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fill TARGET OUT IN...: adds to the folder OUT those files of the folders IN that reach
# code that the files of OUT do not reach.
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
