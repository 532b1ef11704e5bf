#!/usr/bin/env bash
# run.sh CACHE TEST...: these of the tests here, with the official clients of OpenAI and Anthropic as package-lock.json
# pins them. Exit code 77 says, on stderr, why that is not possible here. The environment names the servers.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here cache=$1 node_needed=20.19
shift

skip() { echo "run.sh: $*" >&2; exit 77; }

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
  cp "$here/package.json" "$here/package-lock.json" "$cache/"
  npm ci --prefix "$cache" --ignore-scripts --no-audit --no-fund --omit=peer --fetch-retries=1 \
    --fetch-timeout=60000 >"$cache/npm.log" 2>&1 </dev/null ||
    skip "npm could not fetch the packages of tests/server/clients/package.json; its messages are in $cache/npm.log"
  cp "$here/package-lock.json" "$cache/fetched-lock.json"
}

node=$(find_node)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
cmp -s "$here/package-lock.json" "$cache/fetched-lock.json" || fetch
# Modules are looked for beside the files that ask for them.
cp -u "$here"/*.mjs "$cache/"
exec 9>&-
cd "$cache"
"$node" --test --test-timeout=60000 "$@"
