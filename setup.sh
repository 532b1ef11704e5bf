#!/usr/bin/env bash
# Installs what Strata needs from the distribution's packages: Debian 12 and 13, Ubuntu 24.04.
# Does nothing, and asks nobody, when all is there.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly run_packages=(g++ cmake ninja-build ccache pkg-config git libcli11-dev libspdlog-dev libfmt-dev
  libpcre2-dev liburing-dev libedit-dev nlohmann-json3-dev libboost-dev)
readonly test_packages=(libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev python3)
readonly full_packages=(clang libclang-rt-dev llvm)
readonly cmake_needed=3.25
readonly node_needed=20.19
readonly node_installed=22

usage() {
  cat <<'TEXT'
Usage: ./setup.sh [--run | --tests | --full] [--node]
  --run    what building and running needs
  --tests  also what the tests need (the default)
  --full   also clang and llvm, for fuzzing
  --node   also Node 20.19 or later: the one on the PATH is kept, else one is put into .tools/
TEXT
}

say() { echo "setup.sh: $*"; }
die() { echo "setup.sh: $*" >&2; exit 1; }

# True when version $1 is at least version $2.
at_least() { printf '%s\n%s\n' "$2" "$1" | sort -C -V; }

# Sets `missing` to those of the packages given that are not installed.
find_missing() {
  local installed package
  # dpkg-query fails when one of the names is unknown to it; what it prints about the others still counts.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${binary:Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed \([^:]*\).*/\1/p' || true)
  missing=()
  for package in "$@"; do
    [[ $'\n'$installed$'\n' == *$'\n'$package$'\n'* ]] || missing+=("$package")
  done
}

install_packages() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
    die "apt is not on this system; install these with its own package manager, under its names for them: $*"
  local missing as_root=()
  find_missing "$@"
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these packages are missing, and without sudo only root can install them: ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null ||
    die "apt-get update failed (above); check the network and /etc/apt, then run ./setup.sh again"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    "${missing[@]}" </dev/null || die "apt-get install failed (above) for: ${missing[*]}"
}

check_cmake() {
  local have
  have=$(cmake --version | sed -n '1s/^cmake version //p')
  at_least "$have" "$cmake_needed" ||
    die "$(command -v cmake) is version $have; Strata needs $cmake_needed or later, as in Debian 12"
}

node_version() { "$1" --version 2>/dev/null | sed 's/^v//'; }

install_node() {
  local candidate have
  for candidate in node .tools/node_modules/.bin/node; do
    have=$(node_version "$candidate" || true)
    if [[ -n $have ]] && at_least "$have" "$node_needed"; then return; fi
  done
  command -v npm >/dev/null || install_packages npm
  say "installing node $node_installed from npm into .tools/"
  mkdir -p .tools
  npm install --prefix .tools --no-save --no-audit --no-fund "node@$node_installed" </dev/null ||
    die "npm install of node@$node_installed into $PWD/.tools failed (above)"
  have=$(node_version .tools/node_modules/.bin/node || true)
  [[ -n $have ]] || die "npm installed no working node into $PWD/.tools; install Node $node_needed or later yourself"
  say "node $have is in $PWD/.tools/node_modules/.bin"
}

level=tests node=no
for argument in "$@"; do
  case $argument in
    --run | --tests | --full) level=${argument#--} ;;
    --node) node=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown option $argument" ;;
  esac
done

packages=("${run_packages[@]}")
if [[ $level != run ]]; then packages+=("${test_packages[@]}"); fi
if [[ $level == full ]]; then packages+=("${full_packages[@]}"); fi
install_packages "${packages[@]}"
check_cmake
if [[ $node == yes ]]; then install_node; fi
