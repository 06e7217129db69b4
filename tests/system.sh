#!/bin/sh
# Programs that some tests need: zsh, fish, tmux, ip (iproute2), Slurm, sshd, rsync, Chromium, Prometheus and etcd 3.4.
# `system.sh VENV` prints which are missing; with MAY_INSTALL in the environment it installs them with apt, as root. etcd and
# Prometheus are only unpacked into VENV: if they were installed, they would run as services of this machine. sshd must not
# be started either.
set -eu
venv=$1

find_etcd() {
  for path in /usr/bin/etcd /usr/local/bin/etcd "$venv/etcd/usr/bin/etcd"; do
    [ ! -x "$path" ] || return 0
  done
  return 1
}

find_prometheus() {
  command -v prometheus >/dev/null || [ -x "$venv/prometheus/usr/bin/prometheus" ]
}

find_sshd() {
  command -v ssh >/dev/null && { command -v sshd >/dev/null || [ -x /usr/sbin/sshd ]; }
}

skipped() {
  echo "$1 is missing, skipped: $2; make test SYSTEM=1 installs it with apt, as root"
}

if [ -n "${MAY_INSTALL:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  packages=
  command -v zsh >/dev/null || packages="$packages zsh"
  command -v fish >/dev/null || packages="$packages fish"
  command -v tmux >/dev/null || packages="$packages tmux"
  command -v ip >/dev/null || packages="$packages iproute2"
  command -v slurmctld >/dev/null || [ -x /usr/sbin/slurmctld ] || packages="$packages slurmctld slurmd slurm-client munge"
  find_sshd || packages="$packages openssh-client openssh-server"
  command -v rsync >/dev/null || packages="$packages rsync"
  [ -x /usr/bin/chromium ] || packages="$packages chromium"
  if [ -n "$packages" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $packages >/dev/null
  fi
  find_prometheus || { apt-get update -qq && (cd "$venv" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb prometheus); } 2>/dev/null ||
    echo "Prometheus is not in this machine's package lists, skipped: the tests of metrics with it"
  find_etcd || { apt-get update -qq && cd "$venv" && apt-get download -qq 'etcd-server=3.4*' && dpkg -x etcd-server_*.deb etcd; } 2>/dev/null ||
    echo "etcd 3.4 is not in this machine's package lists: the tests use only 3.5"
  exit 0
fi
command -v zsh >/dev/null || skipped zsh "the test of its completion"
command -v fish >/dev/null || skipped fish "the test of its completion"
command -v tmux >/dev/null || skipped tmux "the tests of the live view on a terminal"
command -v ip >/dev/null || skipped ip "all tests with several hosts"
command -v slurmctld >/dev/null || [ -x /usr/sbin/slurmctld ] || skipped Slurm "the tests with a real Slurm"
find_sshd || skipped sshd "all tests of jobs over ssh"
command -v rsync >/dev/null || skipped rsync "the test of --sync"
[ -x /usr/bin/chromium ] || skipped Chromium "the tests of the page in a browser"
find_prometheus || skipped Prometheus "the tests of metrics with it"
[ "$(id -u)" = 0 ] || echo "not root, skipped: all tests with several hosts, with containers and with memory limits"
find_etcd || skipped "etcd 3.4" "tests of the store against it; 3.5 is used"
