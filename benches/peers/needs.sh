# Installs the commands that a peer needs from Debian. A peer without its commands is skipped and reported. Sourced.
# shellcheck shell=bash

# skip REASON...: prints the reason as the only text on standard output. Exit code 3 tells `run` that this is not a
# failure.
skip() {
  echo "$*"
  exit 3
}

# need COMMAND PACKAGE: installs the Debian package if the command is missing.
need() {
  command -v "$1" >/dev/null || install_from_debian "$2"
  command -v "$1" >/dev/null || skip "$1 is missing, also after $2 was installed"
}

install_from_debian() {
  command -v apt-get >/dev/null || skip "$1 is missing, and so is apt-get"
  [ "$(id -u)" = 0 ] || skip "$1 is missing, and only root can install it"
  echo "installs $1" >&2
  without_services apt_install "$1" >&2 || skip "$1 is missing and could not be installed"
}

apt_install() {
  # The installation must not restart other services of this machine.
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
  apt-get install -y -qq --no-install-recommends "$1" </dev/null >/dev/null ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1" </dev/null >/dev/null; }
}

# without_services COMMAND...: Debian starts a server when it is installed, unless this policy file forbids it. An
# existing file is kept. Ours is removed on every exit, because no service could start while it exists.
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
