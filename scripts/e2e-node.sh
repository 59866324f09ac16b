#!/usr/bin/env bash
# The tests of crates/e2e/tests/node: a real kubelet on a real node, in a network that no traffic leaves.
#
# HEADROOM_NODE is a folder with the node's kernel and disk; CONTRIBUTING.md says what it has to hold. Without it, or without
# KUBEBUILDER_ASSETS, nothing is tested, and with HEADROOM_SKIP_NOTHING that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = inside ]; then
  # Everything here ends with this process: network, mounts and programs.
  mount -t tmpfs -o size=4g tmpfs /dev/shm
  ip link set lo up
  ip tuntap add dev tap0 mode tap
  ip address add 192.168.136.1/24 dev tap0
  ip link set tap0 up
  exec cargo test --locked --workspace --test node -- --ignored --nocapture
fi

missing=
[ -n "${KUBEBUILDER_ASSETS:-}" ] || missing="KUBEBUILDER_ASSETS names no programs of the kubelet's version"
for file in linux root.img; do
  [ -e "${HEADROOM_NODE:-}/$file" ] || missing="HEADROOM_NODE is no folder with the node's \`linux\` and \`root.img\`"
done
[ "$(id -u)" = 0 ] || missing=${missing:-"a network of its own needs root"}
if [ -n "$missing" ]; then
  echo "e2e-node: skipped: $missing" >&2
  [ -z "${HEADROOM_SKIP_NOTHING:-}" ] || { echo "e2e-node: nothing may be skipped" >&2; exit 1; }
  exit 0
fi
scripts/setup-debian.sh node test-servers
scripts/setup-debian.sh helm >/dev/null
scripts/control-plane.sh >/dev/null
cargo test --locked --workspace --test node --no-run
exec unshare --net --pid --fork --kill-child --mount-proc scripts/e2e-node.sh inside
