#!/usr/bin/env bash
# Straight on a table in PostgreSQL: FOR UPDATE SKIP LOCKED claims it, an update fenced by the token completes it, pgbench
# is the clients. See `run` for the verbs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/cluster.sh"

# measure CASE ITEMS; a case is clients:batch, and `next` if the next item is claimed in the transaction that completes one.
# Prints the items a second.
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
    # A client's first transaction completes nothing, as no item has the id 0, and what its last one claims stays leased.
    held=$clients start=(-D id=0 -D token=0 -D lease_fence=0)
  fi
  start_cluster
  # A tenth more rows than are taken: no claim comes back short.
  sql -v rows=$(($2 * 11 / 10 + held)) -f "$here/postgresql/items.sql"
  pgbench -n -M prepared -f "$script" -c "$clients" -j "$(nproc)" -t $((calls + held / clients)) "${start[@]}" \
    >"$PEERS_FOLDER/pgbench.log"
  wrong=$(sql -c "SELECT count(*) FILTER (WHERE lease_state = 3 AND lease_fence = 1) <> $((calls * clients * batch))
    OR count(*) FILTER (WHERE lease_state = 1 AND lease_fence = 1) <> $held
    OR count(DISTINCT lease_owner) FILTER (WHERE lease_state = 1) <> $held
    OR count(*) FILTER (WHERE lease_state = 0 AND lease_fence = 0) <> count(*) - $((calls * clients * batch + held))
    FROM items")
  [ "$wrong" = f ] || { echo "not every item was completed once" >&2; return 1; }
  # Of the transactions a second, those that completed something.
  awk -v items=$((calls * batch)) -v transactions=$((calls + held / clients)) \
    '$1 == "tps" { print $3 * items / transactions }' "$PEERS_FOLDER/pgbench.log"
}

case "$1" in
  prepare) prepare_cluster ;;
  version) cluster_version ;;
  # case | clients | batch | items a second to expect | the like case of lease-broker | in words
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
