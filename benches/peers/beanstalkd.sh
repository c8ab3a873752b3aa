#!/usr/bin/env bash
# beanstalkd with a log that is synced at every command (-b -f 0), and in memory for reference. See `run` for the
# subcommands.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/needs.sh"
source "$here/server.sh"
load=$PEERS_FOLDER/beanstalkd-load

prepare() {
  need beanstalkd beanstalkd
  need go golang-go
  (cd "$here/beanstalkd" && go build -buildvcs=false -o "$load" .) >&2
}

# measure CASE ITEMS. A case is DURABILITY:CONNECTIONS:PIPELINE, and :next if a delete and the next reserve are sent
# together. DURABILITY is durable or memory; PIPELINE is the number of commands in flight.
measure() {
  local durability connections pipeline next port log
  IFS=: read -r durability connections pipeline next <<<"$1"
  port=$(free_port)
  log=$(mktemp -d "$PEERS_FOLDER/beanstalkd.XXXXXX")
  local settings=(-l 127.0.0.1 -p "$port")
  [ "$durability" = memory ] || settings+=(-b "$log" -f 0)
  start_server "$PEERS_FOLDER/beanstalkd.log" beanstalkd "${settings[@]}"
  wait_for_port "$port"
  "$load" -address "127.0.0.1:$port" -connections "$connections" -pipeline "$pipeline" -items "$2" -payload 100 \
    ${next:+"-$next"}
}

case "$1" in
  prepare) prepare ;;
  version) beanstalkd -v ;;
  # case | clients | items per call | expected items per second | comparable case of lease-broker | description
  cases)
    cat <<'EOF'
durable:8:1|8|1|8000|delete:8:1|one at a time
durable:64:1|64|1|8000|delete:64:1|one at a time
durable:8:1:next|8|1|8000|delete:8:1:next|one at a time, delete and the next reserve sent together
durable:64:1:next|64|1|8000|delete:64:1:next|one at a time, delete and the next reserve sent together
durable:8:10|8|10|8000|delete:8:10|pipelined
durable:8:100|8|100|8000|delete:8:100|pipelined
memory:8:1|8|1|40000||in memory, one at a time
memory:8:100|8|100|50000||in memory, pipelined
EOF
    ;;
  measure) measure "$2" "$3" ;;
esac
