#!/usr/bin/env bash
# Installs what is missing, builds, tests. Ends with the test runner's own summary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly fuzz_seconds=600

usage() {
  cat <<'TEXT'
Usage: ./test.sh [--full | --preset NAME]
  (none)         the fast tests of the release build
  --preset NAME  the fast tests of another preset: debug, asan-ubsan, tsan
  --full         the fast tests under the sanitizers, ten minutes of fuzzing, and all tests of the release build
TEXT
}

build() {
  local preset=$1 log=build/$1.configure.log
  mkdir -p build
  cmake --preset "$preset" >"$log" 2>&1 || {
    cat "$log" >&2
    echo "test.sh: cmake could not configure preset $preset; its messages are above" >&2
    return 1
  }
  cmake --build --preset "$preset" -- --quiet || {
    echo "test.sh: the build of preset $preset failed; the compiler's messages are above" >&2
    return 1
  }
}

# run_tests PRESET [ctest arguments]
run_tests() {
  local preset=$1 fixed_addresses=()
  shift
  # ThreadSanitizer's shadow memory collides with the wider address randomisation of recent kernels.
  if [[ $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null; then
    fixed_addresses=(setarch --addr-no-randomize)
  fi
  "${fixed_addresses[@]}" ctest --preset "$preset" --parallel "$(nproc)" "$@"
}

fast_tests() { echo "== $1"; build "$1" && run_tests "$1" -L '^fast$'; }
fuzz() { echo "== fuzz"; tests/fuzz/run.sh "$fuzz_seconds"; }
all_release_tests() { echo "== release"; build release && run_tests release; }

# Every part runs even when an earlier one failed. The release build's tests come last, and close the output.
full() {
  local failed=()
  fast_tests asan-ubsan || failed+=(asan-ubsan)
  fast_tests tsan || failed+=(tsan)
  fuzz || failed+=(fuzz)
  all_release_tests || failed+=(release)
  if ((${#failed[@]})); then
    echo "test.sh: failed: ${failed[*]}" >&2
    return 1
  fi
}

full=no preset=release
while (($#)); do
  case $1 in
    --full) full=yes ;;
    --preset)
      (($# > 1)) || { echo "test.sh: --preset needs a name, one of CMakePresets.json" >&2; exit 2; }
      preset=$2
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; echo "test.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done

if [[ $full == yes ]]; then
  ./setup.sh --full
  full
else
  ./setup.sh --tests
  fast_tests "$preset"
fi
