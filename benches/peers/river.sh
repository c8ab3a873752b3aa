#!/usr/bin/env bash
# River, a queue for Go on PostgreSQL. The load is a program that uses its library, in river/. See `run` for the
# subcommands.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/cluster.sh"
load=$PEERS_FOLDER/river-load

prepare() {
  command -v go >/dev/null || skip "go is missing (Debian's is too old for this version of River)"
  (cd "$here/river" && go build -buildvcs=false -o "$load" .) >&2 || skip "River could not be built with $(go version)"
  prepare_cluster
}

# measure CASE ITEMS
measure() {
  local settings=()
  # The fetch settings are River's defaults. There is no default number of workers; River's README shows 100.
  [ "$1" = tuned ] || settings=(-workers 100 -fetch-cooldown 100ms -fetch-poll 1s)
  start_cluster
  "$load" -items "$2" -payload 100 -connections 8 "${settings[@]}"
}

case "$1" in
  prepare) prepare ;;
  version) echo "River $(awk '$1 == "github.com/riverqueue/river" { print $2 }' "$here/river/go.mod") on $(cluster_version)" ;;
  # case | clients | items per call | expected items per second | comparable case of lease-broker | description
  cases)
    cat <<'EOF'
tuned|8|its own|15000|keep:8:100|settings of its own benchmark
default|8|its own|1000|keep:8:100|default fetch settings, 100 workers
EOF
    ;;
  measure) measure "$2" "$3" ;;
esac
