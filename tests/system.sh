#!/bin/sh
# Programs that some tests need: zsh, fish, ip (iproute2) and etcd 3.4. `system.sh VENV` prints which are missing; with
# MAY_INSTALL in the environment it installs them with apt, as root. etcd is only unpacked into VENV: if it were
# installed, it would run as a service of this machine.
set -eu
venv=$1

find_etcd() {
  for path in /usr/bin/etcd /usr/local/bin/etcd "$venv/etcd/usr/bin/etcd"; do
    [ ! -x "$path" ] || return 0
  done
  return 1
}

skipped() {
  echo "$1 is missing, skipped: $2; make test SYSTEM=1 installs it with apt, as root"
}

if [ -n "${MAY_INSTALL:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  packages=
  command -v zsh >/dev/null || packages="$packages zsh"
  command -v fish >/dev/null || packages="$packages fish"
  command -v ip >/dev/null || packages="$packages iproute2"
  if [ -n "$packages" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    apt-get install -y -qq --no-install-recommends $packages >/dev/null
  fi
  find_etcd || { apt-get update -qq && cd "$venv" && apt-get download -qq 'etcd-server=3.4*' && dpkg -x etcd-server_*.deb etcd; } 2>/dev/null ||
    echo "etcd 3.4 is not in this machine's package lists: the tests use only 3.5"
  exit 0
fi
command -v zsh >/dev/null || skipped zsh "the test of its completion"
command -v fish >/dev/null || skipped fish "the test of its completion"
command -v ip >/dev/null || skipped ip "all tests with several hosts"
[ "$(id -u)" = 0 ] || echo "not root, skipped: all tests with several hosts, with containers and with memory limits"
find_etcd || skipped "etcd 3.4" "tests of the store against it; 3.5 is used"
