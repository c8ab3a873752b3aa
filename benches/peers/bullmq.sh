#!/usr/bin/env bash
# BullMQ, a queue for Node on Redis. Redis syncs its log before each reply. See `run` for the subcommands.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/needs.sh"
source "$here/server.sh"
load=$PEERS_FOLDER/bullmq

prepare() {
  need redis-server redis-server
  need npm npm
  cp -r "$here/bullmq" "$load"
  (cd "$load" && npm install --silent --no-fund --no-audit) >&2 || skip "npm could not install BullMQ"
}

# measure CASE ITEMS. A case is PROCESSES:WORKERS:CONCURRENCY: workers of all processes, concurrent jobs per worker.
measure() {
  local processes workers concurrency port data
  IFS=: read -r processes workers concurrency <<<"$1"
  port=$(free_port)
  data=$(mktemp -d "$PEERS_FOLDER/redis.XXXXXX")
  start_server "$PEERS_FOLDER/redis.log" redis-server --port "$port" --bind 127.0.0.1 --dir "$data" --save '' \
    --appendonly yes --appendfsync always
  wait_for_port "$port"
  (cd "$load" && node load.js "$port" "$2" 100 "$processes" "$workers" "$concurrency")
}

version() {
  local bullmq
  bullmq=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' "$load/node_modules/bullmq/package.json")
  echo "BullMQ $bullmq on Redis $(redis-server --version | sed 's/.*v=\([^ ]*\).*/\1/'), Node $(node --version)"
}

case "$1" in
  prepare) prepare ;;
  version) version ;;
  # case | clients | items per call | expected items per second | comparable case of lease-broker | description
  cases)
    cat <<'EOF'
1:1:64|64|1|7000|delete:64:1:next|one worker, 64 at once
1:8:8|64|1|7000|delete:64:1:next|8 workers, 8 at once each
EOF
    ;;
  measure) measure "$2" "$3" ;;
esac
