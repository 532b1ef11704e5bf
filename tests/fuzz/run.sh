#!/usr/bin/env bash
# Builds the fuzz targets and runs each for SECONDS from its committed corpus. What a target finds on the way stays in
# build/fuzz; an input that fails is kept there and named in the output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [[ $# -ne 1 || ! $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: tests/fuzz/run.sh SECONDS" >&2
  exit 2
fi
seconds=$1
targets=(gguf jinja arena tools api)

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}" -- --quiet

for target in "${targets[@]}"; do
  found=build/fuzz/found/$target
  mkdir -p "$found"
  # An input of 8 KiB never justifies an allocation of more than a few MB.
  "build/fuzz/bin/${target}_fuzz" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
    -malloc_limit_mb=8 -dict="tests/fuzz/dictionary/$target.dict" -artifact_prefix="$found/failed-" \
    -verbosity=0 "$found" "tests/fuzz/corpus/$target"
  echo "fuzz: $target ran $seconds seconds without a failure"
done
