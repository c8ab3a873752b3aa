#!/usr/bin/env bash
# lease-broker over gRPC on a temporary SQLite file, with the load of `lease-broker-bench`. The program is built as for
# packages, because those of the other systems come from packages. See `run` for the subcommands.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/needs.sh"
root=$here/../..
binary=${PEERS_BINARY:-${CARGO_TARGET_DIR:-$root/target}/dist/lease-broker}

prepare() {
  [ -z "${PEERS_BINARY:-}" ] || return 0
  command -v cargo >/dev/null || skip "cargo is missing; --binary takes a lease-broker that is already built, with lease-broker-bench beside it"
  (cd "$root" && cargo build --profile dist --bin lease-broker --bin lease-broker-bench) >&2
}

# measure CASE ITEMS. A case is ON_COMPLETE:WORKERS:BATCH, and :next if a completion claims the next items in the same
# call.
measure() {
  local on_complete workers batch next json=$PEERS_FOLDER/lease-broker.json
  IFS=: read -r on_complete workers batch next <<<"$1"
  # The load takes less than one core. A second thread would only have to be woken.
  TOKIO_WORKER_THREADS=1 "$binary-bench" --broker "$binary" --workers "$workers" --connections 8 --batch "$batch" --items "$2" --payload-bytes 100 \
    --on-complete "$on_complete" ${next:+"--$next"} --json "$json" >&2
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["load"]["items_per_second"])' "$json"
}

case "$1" in
  prepare) prepare ;;
  version) "$binary" --version ;;
  # case | clients | items per call | expected items per second | comparable case of lease-broker | description
  cases)
    cat <<'EOF'
keep:8:1|8|1|5000||one at a time, rows kept
keep:64:1|64|1|10000||one at a time, rows kept
keep:8:1:next|8|1|9000||one at a time, complete and claim the next in one call, rows kept
keep:64:1:next|64|1|20000||one at a time, complete and claim the next in one call, rows kept
keep:8:10|8|10|30000||in batches, rows kept
keep:8:100|8|100|80000||in batches, rows kept
delete:8:1|8|1|5000||one at a time, rows deleted
delete:64:1|64|1|10000||one at a time, rows deleted
delete:8:1:next|8|1|9000||one at a time, complete and claim the next in one call, rows deleted
delete:64:1:next|64|1|20000||one at a time, complete and claim the next in one call, rows deleted
delete:8:10|8|10|30000||in batches, rows deleted
delete:8:100|8|100|80000||in batches, rows deleted
EOF
    ;;
  measure) measure "$2" "$3" ;;
esac
