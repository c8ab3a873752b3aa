#!/usr/bin/env bash
# graphile-worker, a queue for Node on PostgreSQL. See `run` for the subcommands.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/cluster.sh"
load=$PEERS_FOLDER/graphile-worker

prepare() {
  need npm npm
  cp -r "$here/graphile-worker" "$load"
  (cd "$load" && npm install --silent --no-fund --no-audit) >&2 || skip "npm could not install graphile-worker"
  prepare_cluster
}

# measure CASE ITEMS. A case is CONCURRENCY:BATCH: concurrent jobs, jobs per fetch (0: one at a time).
measure() {
  local concurrency batch
  IFS=: read -r concurrency batch <<<"$1"
  start_cluster
  (cd "$load" && node load.js "$2" 100 "$concurrency" "$batch")
}

version() {
  local version
  version=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' \
    "$load/node_modules/graphile-worker/package.json")
  echo "graphile-worker $version on $(cluster_version), Node $(node --version)"
}

case "$1" in
  prepare) prepare ;;
  version) version ;;
  # case | clients | items per call | expected items per second | comparable case of lease-broker | description
  cases)
    cat <<'EOF'
24:500|24|500|30000|delete:8:100|local queue, completions in batches
24:0|24|1|2500|delete:64:1|default: one at a time
EOF
    ;;
  measure) measure "$2" "$3" ;;
esac
