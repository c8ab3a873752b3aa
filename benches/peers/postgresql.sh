#!/usr/bin/env bash
# Straight on a table in PostgreSQL: FOR UPDATE SKIP LOCKED claims it, an update fenced by the token completes it, pgbench
# is the clients. See `run` for the verbs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/cluster.sh"

# measure CASE ITEMS; a case is clients:batch. Prints the items a second.
measure() {
  local clients batch script="$here/postgresql/claim-one.sql" wrong
  IFS=: read -r clients batch <<<"$1"
  local calls=$(($2 / clients / batch))
  if [ "$batch" -gt 1 ]; then
    script=$PEERS_FOLDER/claim-$batch.sql
    sed "/^--/d; s/BATCH/$batch/" "$here/postgresql/claim-batch.sql" >"$script"
  fi
  start_cluster
  # A tenth more rows than are taken: no claim comes back short.
  sql -v rows=$(($2 * 11 / 10)) -f "$here/postgresql/items.sql"
  pgbench -n -M prepared -f "$script" -c "$clients" -j "$(nproc)" -t "$calls" >"$PEERS_FOLDER/pgbench.log"
  wrong=$(sql -c "SELECT count(*) FILTER (WHERE lease_state = 3 AND lease_fence = 1) <> $((calls * clients * batch))
    OR count(*) FILTER (WHERE lease_state = 3 AND lease_fence = 1) + count(*) FILTER (WHERE lease_fence = 0) <> count(*)
    FROM items")
  [ "$wrong" = f ] || { echo "not every item was completed once" >&2; return 1; }
  awk -v batch="$batch" '$1 == "tps" { print $3 * batch }' "$PEERS_FOLDER/pgbench.log"
}

case "$1" in
  prepare) prepare_cluster ;;
  version) cluster_version ;;
  # case | clients | batch | items a second to expect | the like case of lease-broker | in words
  cases)
    cat <<'EOF'
8:1|8|1|5000|keep:8:1|one at a time
64:1|64|1|10000|keep:64:1|one at a time
8:10|8|10|30000|keep:8:10|in batches
8:100|8|100|80000|keep:8:100|in batches
EOF
    ;;
  measure) measure "$2" "$3" ;;
esac
