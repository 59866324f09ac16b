#!/usr/bin/env bash
# The steps of a release that are not one command of another tool: release.sh STEP ARGUMENT... `.github/workflows/release.yml` has
# their order. The same sources give the same files: everything has the time of the commit, or SOURCE_DATE_EPOCH.
#
#   build PROGRAM TARGET             builds a program for a target of Rust, and prints the path of the binary
#   package BINARY PLATFORM FOLDER   packs a program, for a PLATFORM such as linux-amd64
#   sboms FOLDER                     bills of materials of policy and programs, by cargo-cyclonedx
#   assemble FOLDER URL              adds the other files of a release to the built ones, and checks all
#   check FOLDER                     fails if a file of a release is missing or changed
#   image LAYOUT PLATFORM=BINARY...  the image as an OCI layout, by buildah, which needs no container runtime
#   tag REFERENCE TAG...             gives pushed artifacts further tags: all of them, or none
#   artifacthub [COMMIT]             commits the files that Artifact Hub reads to the branch `artifacthub`
set -euo pipefail
cd "$(dirname "$0")/.."
plugins="linux-amd64 linux-arm64 darwin-amd64 darwin-arm64"
controllers="linux-amd64 linux-arm64"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { echo "release: $*" >&2; exit 1; }
xtask() { ${XTASK:-cargo xtask} "$@"; }

archives() {
  printf 'kubectl-headroom-%s.tar.gz\n' $plugins
  printf 'headroom-controller-%s.tar.gz\n' $controllers
}

# Paths of this machine stay out of the program. For the other architecture of Linux it takes Debian's cross compiler.
build() {
  local machine=${2%%-*} name=${2//-/_} folder=${CARGO_TARGET_DIR:-target}/release-$1
  local flags="--remap-path-prefix=$PWD=/headroom --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
  # Nothing else is in its image. Since 2.34, glibc resolves names without libraries loaded at run time.
  [ "$1" != headroom-controller ] || flags+=" -C target-feature=+crt-static"
  [ -d "$(rustc --print sysroot)/lib/rustlib/$2" ] || rustup target add "$2" >&2
  if [ "$machine" != "$(uname -m)" ] && [[ $2 = *-linux-gnu ]]; then
    export "CC_$name=$machine-linux-gnu-gcc"
    export "CARGO_TARGET_$(tr a-z A-Z <<<"$name")_LINKER=$machine-linux-gnu-gcc"
  fi
  RUSTFLAGS=$flags cargo build --locked --profile native --package headroom-cli --bin "$1" --target "$2" --target-dir "$folder" >&2
  echo "$folder/$2/native/$1"
}

package() {
  local program archive tar
  program=$(basename "$1")
  archive=$program-$2.tar.gz
  grep -qx "$archive" <<<"$(archives)" || die "a release has no $archive"
  [ -e "$1" ] || die "$1 is missing: build it first"
  install -m 755 "$1" "$work/$program"
  install -m 644 LICENSE "$work/LICENSE"
  # macOS has its tar as bsdtar.
  tar=$(command -v gtar || command -v tar)
  mkdir -p "$3"
  "$tar" -C "$work" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -cf - LICENSE "$program" | gzip -9n >"$3/$archive"
}

sboms() {
  local cyclonedx=(cargo cyclonedx --format json --no-build-deps --override-filename sbom)
  "${cyclonedx[@]}" --target wasm32-wasip1
  mv sbom.json "$1/policy-sbom.cdx.json"
  "${cyclonedx[@]}" --target x86_64-unknown-linux-gnu
  mv crates/cli/sbom.json "$1/programs-sbom.cdx.json"
  git clean -qfx -- '*sbom.json'
}

assemble() {
  local krew platform helm
  krew=$(sed "s#\${HOMEPAGE}#$(xtask release identity URL)#; s#\${RELEASE}#$2#" deploy/krew/headroom.yaml)
  for platform in $plugins; do
    [ -e "$1/kubectl-headroom-$platform.tar.gz" ] || die "kubectl-headroom-$platform.tar.gz is missing"
    krew=${krew//"\${SHA256_$(tr a-z- A-Z_ <<<"$platform")}"/$(sha256sum "$1/kubectl-headroom-$platform.tar.gz" | cut -d ' ' -f 1)}
  done
  [[ $krew != *'${'* ]] || die "the krew manifest has placeholders left"
  echo "$krew" >"$1/headroom.yaml"
  helm=$(scripts/setup-debian.sh helm)
  "$helm" package --destination "$1" deploy/charts/headroom >&2
  xtask release manifests "$1"
  (cd "$1" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS)
  check "$1"
}

# Runs before anything is published, so that half a release is never public.
check() {
  local file
  for file in policy.wasm annotated-policy.wasm policy-sbom.cdx.json programs-sbom.cdx.json headroom.yaml manifests.yaml \
    manifests-ledger.yaml "headroom-$(xtask release version).tgz" $(archives); do
    [ -s "$1/$file" ] || die "$file is missing or empty"
    grep -q "  $file\$" "$1/SHA256SUMS" || die "SHA256SUMS does not list $file"
  done
  (cd "$1" && sha256sum --quiet --strict -c SHA256SUMS >&2) || die "a file is not the one of SHA256SUMS"
}

image() {
  local layout=$1 pair binary machine header root version
  local buildah=(buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs)
  version=$(xtask release version)
  shift
  for pair; do
    binary=${pair#*=}
    case $pair in
      linux-amd64=*) machine=X86-64 ;;
      linux-arm64=*) machine=AArch64 ;;
      *) die "${pair%%=*} is none of $controllers" ;;
    esac
    [ -e "$binary" ] || die "$binary is missing: build it first"
    header=$(readelf --file-header --dynamic --wide "$binary")
    [[ $header = *$machine* ]] || die "$binary is not built for $machine"
    [[ $header != *"(NEEDED)"* ]] || die "$binary is not linked statically: the image has no libraries"
    root=$work/context/$(sed 's/^linux-//; s/=.*//' <<<"$pair")
    [ ! -e "$root" ] || die "there are two programs for ${pair%%=*}"
    install -D -m 755 "$binary" "$root/usr/bin/headroom-controller"
    install -D -m 644 LICENSE "$root/usr/share/doc/headroom-controller/LICENSE"
    install -d -m 1777 "$root/tmp"
    # Mozilla's authorities as Debian has them; those that this machine trusts besides stay out.
    install -d "$root/etc/ssl/certs"
    cat /usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
    chmod -R go=rX "$root/usr" "$root/etc"
    "${buildah[@]}" build --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --manifest headroom-controller \
      --platform "linux/$(basename "$root")" --file deploy/image/Dockerfile \
      --label org.opencontainers.image.title=headroom-controller \
      --label org.opencontainers.image.version="$version" \
      --label org.opencontainers.image.licenses=Apache-2.0 \
      --label org.opencontainers.image.revision="$(git rev-parse HEAD)" \
      --label org.opencontainers.image.source="$(xtask release identity URL)" \
      --label org.opencontainers.image.authors="$(xtask release identity AUTHORS)" \
      "$work/context" >&2
  done
  "${buildah[@]}" manifest push --quiet --all headroom-controller "oci:$layout:v$version" >&2
  sed -n 's/.*"digest":"\([^"]*\)".*/\1/p' "$layout/index.json"
}

# A release pushes and signs under tags that nobody uses, and gives the versions' tags last, all or none: where a tag is
# another artifact already, all are refused. skopeo uses the logins of docker and podman.
tag() {
  local reference place found
  local -a copies=()
  while [ $# -ge 2 ]; do
    reference=$1 place=${1%@*}:$2
    shift 2
    skopeo inspect --raw "docker://$reference" >/dev/null || die "$reference is not there"
    if skopeo inspect --raw "docker://$place" >"$work/found" 2>"$work/error"; then
      found=sha256:$(sha256sum "$work/found" | cut -d ' ' -f 1)
      [ "$found" = "${reference#*@}" ] || die "$place is another artifact already; released versions do not change"
      echo "$place is that artifact already"
    else
      grep -qE 'manifest unknown|not found' "$work/error" || die "$place: $(<"$work/error")"
      copies+=("$reference" "$place")
    fi
  done
  set -- ${copies[@]+"${copies[@]}"}
  while [ $# -gt 0 ]; do
    skopeo copy --all --preserve-digests --quiet "docker://$1" "docker://$2"
    echo "$2 is $1"
    shift 2
  done
}

# The branch has nothing else and keeps its history; the work tree is left alone. Links of the README lead from elsewhere to
# the files of this release.
artifacthub() {
  local commit=${1:-HEAD} url version readme tree parent name='[A-Za-z.][A-Za-z0-9_./#-]*'
  export GIT_INDEX_FILE=$work/index
  url=$(xtask release identity URL)
  version=$(git show "$commit:artifacthub-pkg.yml" | sed -n 's/^version: //p')
  readme=$(git show "$commit:README.md" |
    sed -E "s~(!\[[^]]*\]\(|<img src=\")($name)~\1$url/raw/v$version/\2~g; s~\]\(($name)\)~]($url/blob/v$version/\1)~g" |
    git hash-object -w --stdin)
  git update-index --add --cacheinfo "100644,$readme,policies/headroom/README.md" \
    --cacheinfo "100644,$(git rev-parse "$commit:artifacthub-pkg.yml"),policies/headroom/artifacthub-pkg.yml" \
    --cacheinfo "100644,$(git rev-parse "$commit:deploy/artifacthub-repo.yml"),artifacthub-repo.yml"
  tree=$(git write-tree)
  parent=$(git rev-parse -q --verify refs/heads/artifacthub || git rev-parse -q --verify refs/remotes/origin/artifacthub || true)
  if [ -n "$parent" ] && [ "$(git rev-parse "$parent^{tree}")" = "$tree" ]; then
    echo "artifacthub: unchanged"
  else
    parent=$(git commit-tree "$tree" ${parent:+-p "$parent"} -m "Publish version $version to Artifact Hub")
  fi
  git update-ref refs/heads/artifacthub "$parent"
}

step=${1:-}
case $step in
  build | package | sboms | assemble | check | image | tag | artifacthub) shift; "$step" "$@" ;;
  *) sed -n '5,12s/^# *//p' "$0" >&2; exit 2 ;;
esac
