# A PostgreSQL cluster of its own in the temporary folder, on a unix socket alone; for every peer that keeps its rows in
# PostgreSQL. Sourced. `prepare_cluster` makes it once; `start_cluster` and the exit trap hold for one measurement.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/needs.sh"

cluster=$PEERS_FOLDER/cluster
export PGHOST=$cluster/socket PGUSER=postgres PGDATABASE=postgres PGOPTIONS='-c client_min_messages=warning'

# PostgreSQL refuses to run as root, so root runs it as the user that Debian's package makes.
as_owner() {
  if [ "$(id -u)" = 0 ]; then
    (cd / && runuser -u postgres -- "$@")
  else
    "$@"
  fi
}

# Debian keeps the programs of each version apart, outside the PATH.
find_programs() {
  local newest
  newest=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
  [ -z "$newest" ] || PATH=$newest:$PATH
}

prepare_cluster() {
  find_programs
  command -v pgbench >/dev/null || install_from_debian postgresql
  find_programs
  command -v pgbench >/dev/null || skip "pgbench is not among PostgreSQL's programs"
  [ ! -d "$cluster" ] || return 0
  mkdir -p "$cluster/socket"
  [ "$(id -u)" != 0 ] || chown -R postgres "$cluster"
  as_owner initdb -D "$cluster/data" -A trust -U postgres -E UTF8 --locale=C >/dev/null
  # What differs from the defaults. The checkpoints of a run of seconds belong to no run, so the log is let grow.
  as_owner tee -a "$cluster/data/postgresql.conf" >/dev/null <<EOF
listen_addresses = ''
unix_socket_directories = '$cluster/socket'
fsync = on
synchronous_commit = on
full_page_writes = on
autovacuum = on
shared_buffers = 1GB
max_wal_size = 4GB
max_connections = 200
EOF
}

start_cluster() {
  find_programs
  trap end_cluster EXIT
  trap 'exit 130' INT TERM
  as_owner pg_ctl -D "$cluster/data" -l "$cluster/data/server.log" -w start >/dev/null
}

# pg_ctl ends the server whose pid is in this cluster's own folder.
end_cluster() {
  as_owner pg_ctl -D "$cluster/data" -m fast -w stop >/dev/null
}

sql() {
  psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"
}

cluster_version() {
  find_programs
  echo "PostgreSQL $(postgres --version | sed 's/.*) //')"
}
