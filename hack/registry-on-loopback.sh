# To be sourced: `start_registry FOLDER` starts Debian's docker-registry on a free port of 127.0.0.1, keeps its data in FOLDER,
# and sets `registry` (its process) and `registry_host`. Whoever sources it stops the process.
start_registry() {
  local folder=$1 port
  "$(dirname "${BASH_SOURCE[0]}")/ensure-docker-registry"
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  mkdir -p "$folder/data"
  cat >"$folder/config.yml" <<EOF
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $folder/data}}
http: {addr: "127.0.0.1:$port"}
EOF
  docker-registry serve "$folder/config.yml" >"$folder/log" 2>&1 &
  registry=$!
  registry_host=127.0.0.1:$port
  for _ in $(seq 100); do
    if curl -fsS "http://$registry_host/v2/" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  echo "the registry does not start: $(cat "$folder/log")" >&2
  return 1
}
