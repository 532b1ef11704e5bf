#!/usr/bin/env bash
# strata run, from a clone: installs what is missing and builds when sources have changed, then runs.
# Standard output carries only what strata prints.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$root/build/run
program=$build/bin/strata
stamp=$build/.built  # as old as the start of the last build that succeeded
log=$build/build.log

up_to_date() {
  [[ -x $program && -e $stamp ]] &&
    [[ -z $(find "$root/src" "$root/cmake" "$root/CMakeLists.txt" -newer "$stamp" -print -quit) ]]
}

compile() {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTRATA_TESTS=OFF &&
    cmake --build "$build" --target strata
}

build_program() {
  "$root/setup.sh" --run </dev/null >&2 || exit 1
  mkdir -p "$build"
  exec {lock}>"$build/.lock"
  flock "$lock"  # two first runs at once: the second waits, and finds the work done
  if ! up_to_date; then
    echo "run.sh: building Strata; the first time takes some minutes (log: $log)" >&2
    touch "$stamp.started"
    compile </dev/null >"$log" 2>&1 || {
      cat "$log" >&2
      echo "run.sh: the build failed; its log is above and in $log" >&2
      exit 1
    }
    mv "$stamp.started" "$stamp"
  fi
  exec {lock}>&-
}

up_to_date || build_program
exec "$program" run "$@"
