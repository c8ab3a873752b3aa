# Starts one server on a free port for one measurement, and stops it by its pid on every exit of the script. Sourced.
# shellcheck shell=bash

server_pid=""

end_server() {
  [ -n "$server_pid" ] || return 0
  kill "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=""
}
trap end_server EXIT
trap 'exit 130' INT TERM

# start_server LOG COMMAND...
start_server() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  server_pid=$!
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# wait_for_port PORT: waits until a process listens on the port. Fails after 10 s, or if the server has ended.
wait_for_port() {
  local tries=0
  until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
    kill -0 "$server_pid" 2>/dev/null || { echo "the server ended before it listened on port $1" >&2; return 1; }
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || { echo "no process listens on port $1 after 10 s" >&2; return 1; }
    sleep 0.05
  done
}
