#!/usr/bin/env bash
# A table in PostgreSQL, used directly by the clients of pgbench. FOR UPDATE SKIP LOCKED claims rows, and an update
# fenced by the token completes them. See `run` for the subcommands.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/cluster.sh"

# measure CASE ITEMS. A case is CLIENTS:BATCH, and :next if one transaction completes an item and claims the next.
# Prints the items per second.
measure() {
  local clients batch next script="$here/postgresql/claim-one.sql" held=0 start=() wrong
  IFS=: read -r clients batch next <<<"$1"
  local calls=$(($2 / clients / batch))
  if [ "$batch" -gt 1 ]; then
    script=$PEERS_FOLDER/claim-$batch.sql
    sed "/^--/d; s/BATCH/$batch/" "$here/postgresql/claim-batch.sql" >"$script"
  fi
  if [ -n "$next" ]; then
    script=$here/postgresql/claim-next.sql
    # A client's first transaction completes no item, as none has the id 0. The item of its last claim stays leased.
    held=$clients start=(-D id=0 -D token=0 -D lease_fence=0)
  fi
  start_cluster
  # A tenth more rows than the clients claim, so that no claim returns fewer items than it asks for.
  sql -v rows=$(($2 * 11 / 10 + held)) -f "$here/postgresql/items.sql"
  pgbench -n -M prepared -f "$script" -c "$clients" -j "$(nproc)" -t $((calls + held / clients)) "${start[@]}" \
    >"$PEERS_FOLDER/pgbench.log"
  wrong=$(sql -c "SELECT count(*) FILTER (WHERE lease_state = 3 AND lease_fence = 1) <> $((calls * clients * batch))
    OR count(*) FILTER (WHERE lease_state = 1 AND lease_fence = 1) <> $held
    OR count(DISTINCT lease_owner) FILTER (WHERE lease_state = 1) <> $held
    OR count(*) FILTER (WHERE lease_state = 0 AND lease_fence = 0) <> count(*) - $((calls * clients * batch + held))
    FROM items")
  [ "$wrong" = f ] || { echo "not every item was completed once" >&2; return 1; }
  # The rate of the transactions that completed items.
  awk -v items=$((calls * batch)) -v transactions=$((calls + held / clients)) \
    '$1 == "tps" { print $3 * items / transactions }' "$PEERS_FOLDER/pgbench.log"
}

case "$1" in
  prepare) prepare_cluster ;;
  version) cluster_version ;;
  # case | clients | items per call | expected items per second | comparable case of lease-broker | description
  cases)
    cat <<'EOF'
8:1|8|1|5000|keep:8:1|one at a time
64:1|64|1|10000|keep:64:1|one at a time
8:1:next|8|1|9000|keep:8:1:next|one at a time, the next in the same transaction
64:1:next|64|1|20000|keep:64:1:next|one at a time, the next in the same transaction
8:10|8|10|30000|keep:8:10|in batches
8:100|8|100|80000|keep:8:100|in batches
EOF
    ;;
  measure) measure "$2" "$3" ;;
esac
