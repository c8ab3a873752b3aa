# A temporary PostgreSQL cluster, for the peers that use PostgreSQL. Sourced. `prepare_cluster` creates it once.
# `start_cluster` starts the server for one measurement, and an exit trap stops it. Clients connect over TCP on loopback, as
# those of the other systems do: workers run on other hosts, where no unix socket reaches the server.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/needs.sh"
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

cluster=$PEERS_FOLDER/cluster
export PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres PGOPTIONS='-c client_min_messages=warning'

# PostgreSQL refuses to run as root. Root runs it as the user that Debian's package creates.
as_owner() {
  if [ "$(id -u)" = 0 ]; then
    (cd / && runuser -u postgres -- "$@")
  else
    "$@"
  fi
}

# Debian installs the programs of each version in a folder outside the PATH.
find_programs() {
  local newest
  newest=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
  [ -z "$newest" ] || PATH=$newest:$PATH
}

prepare_cluster() {
  find_programs
  command -v pgbench >/dev/null || install_from_debian postgresql
  find_programs
  command -v pgbench >/dev/null || skip "pgbench is missing, also after postgresql was installed"
  [ ! -d "$cluster" ] || return 0
  mkdir -p "$cluster"
  [ "$(id -u)" != 0 ] || chown -R postgres "$cluster"
  as_owner initdb -D "$cluster/data" -A trust -U postgres -E UTF8 --locale=C >/dev/null
  # The settings that differ from the defaults or that durability needs. max_wal_size is large so that no checkpoint
  # disturbs a run of a few seconds.
  as_owner tee -a "$cluster/data/postgresql.conf" >/dev/null <<EOF
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
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
  PGPORT=$(free_port)
  export PGPORT
  as_owner pg_ctl -D "$cluster/data" -l "$cluster/data/server.log" -o "-p $PGPORT" -w start >/dev/null
}

# pg_ctl stops the server whose pid is in this cluster's folder.
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
