#!/usr/bin/env bash
# procrastinate, a queue for Python on PostgreSQL. See `run` for the subcommands.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/cluster.sh"
environment=$PEERS_FOLDER/procrastinate

prepare() {
  python3 -m venv "$environment" >&2 || skip "python3 cannot create a virtual environment (Debian: python3-venv)"
  "$environment/bin/pip" install -q --disable-pip-version-check -r "$here/procrastinate/requirements.txt" >&2 ||
    skip "pip could not install procrastinate"
  prepare_cluster
}

# measure CASE ITEMS. A case is the number of concurrent jobs.
measure() {
  start_cluster
  "$environment/bin/python" "$here/procrastinate/load.py" "$2" 100 "$1"
}

version() {
  local version
  version=$("$environment/bin/python" -c 'from importlib.metadata import version; print(version("procrastinate"))')
  echo "procrastinate $version on $(cluster_version), $("$environment/bin/python" --version)"
}

case "$1" in
  prepare) prepare ;;
  version) version ;;
  # case | clients | items per call | expected items per second | comparable case of lease-broker | description
  cases) echo "20|20|1|150|keep:64:1|one process, 20 at once" ;;
  measure) measure "$2" "$3" ;;
esac
