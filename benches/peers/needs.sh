# What a peer needs before it can be measured: a command that Debian has, or the peer is skipped, aloud. Sourced.
# shellcheck shell=bash

# Says why the peer is not measured, on standard output, which has nothing else; 3 is how `run` knows it from a failure.
skip() {
  echo "$*"
  exit 3
}

# need COMMAND PACKAGE: installs the Debian package unless the command is here.
need() {
  command -v "$1" >/dev/null || install_from_debian "$2"
  command -v "$1" >/dev/null || skip "$1 is not here, not even after $2 was installed"
}

install_from_debian() {
  command -v apt-get >/dev/null || skip "$1 is not here, and neither is apt-get to install it with"
  [ "$(id -u)" = 0 ] || skip "$1 is not here, and only root can install it"
  echo "installs $1" >&2
  without_services apt_install "$1" >&2 || skip "$1 is not here and could not be installed"
}

apt_install() {
  # Installing restarts nothing that runs on this machine.
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
  apt-get install -y -qq --no-install-recommends "$1" </dev/null >/dev/null ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1" </dev/null >/dev/null; }
}

# Debian starts a server as soon as it is installed, unless this file forbids it. One that is there already is left alone;
# one of ours goes however this ends, or nothing would start any more.
without_services() (
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  "$@"
)
