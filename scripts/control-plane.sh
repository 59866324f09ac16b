#!/usr/bin/env bash
# Prints the folder with the programs of a Kubernetes control plane: etcd, kube-apiserver, kubectl and, where the tests that need
# them are to run, kube-controller-manager, kube-scheduler and kubelet.
#
# That is the folder in KUBEBUILDER_ASSETS, as for the tests of other controllers (`setup-envtest use 1.36.x -p path`). Without the
# variable, the first four are built as Kubernetes 1.20 out of Debian's own packages.
#
# Nothing is installed and no apt file of the machine is changed: packages are downloaded and unpacked into
# a working folder, with an apt state of its own whose sources are the machine's, source packages added.
# So it needs no root. What was built is kept outside the checkout, under a name that says which Kubernetes
# and which version of this script made it; a second run only prints that name.
set -euo pipefail

kubernetes=1.20.2
go_version=1.19

say() { echo "control-plane: $*" >&2; }
die() { say "$*"; exit 1; }

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    for program in etcd kube-apiserver kubectl; do
        [ -x "$KUBEBUILDER_ASSETS/$program" ] || die "KUBEBUILDER_ASSETS has no program \`$program\`"
    done
    cd "$KUBEBUILDER_ASSETS" && pwd
    exit
fi

for tool in apt-get dpkg-deb sha256sum flock; do
    command -v "$tool" >/dev/null || die "\`$tool\` is missing: this builds from Debian's packages; elsewhere set KUBEBUILDER_ASSETS, or KUBECONFIG to a test cluster"
done

recipe=$(sha256sum <"$0" | cut -c1-12)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/headroom
built=$cache/control-plane-$kubernetes-$(dpkg --print-architecture)-$recipe

answer_if_built() {
    if [ -d "$built" ]; then
        echo "$built/bin"
        exit 0
    fi
}

answer_if_built
mkdir -p "$cache"
# Runs that meet wait for the first one. The lock only saves work: the rename below is what keeps them apart.
exec 9>"$cache/control-plane.lock"
flock --nonblock 9 || { say "another run is building, waiting for it"; flock 9; }
answer_if_built

work=$(mktemp -d "$cache/building.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
began=$SECONDS

# --- download ---------------------------------------------------------------------------------------------
mkdir -p "$work"/apt/{lists/partial,archives/partial} "$work"/{download,unpacked,gopath/src/k8s.io,result/bin}
touch "$work/apt/status"

# Both formats of apt sources, each entry asked for its source packages too.
for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] && { sed 's/^Types:.*/Types: deb deb-src/' "$file"; echo; }
done >"$work/apt/machine.sources"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -e "$file" ] && sed -nE 's/^deb(-src)?([[:space:]].*)/deb\2\ndeb-src\2/p' "$file" | sort -u
done >"$work/apt/machine.list" || true
mkdir "$work/apt/parts"
mv "$work/apt/machine.sources" "$work/apt/machine.list" "$work/apt/parts/"

own_apt_get() {
    apt-get -qq -o Dir::State::lists="$work/apt/lists" -o Dir::State::status="$work/apt/status" \
        -o Dir::Cache="$work/apt" -o Dir::Cache::archives="$work/apt/archives" \
        -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/apt/parts" \
        -o APT::Sandbox::User="$(id -un)" "$@"
}

say "downloading Kubernetes $kubernetes, Go $go_version and etcd"
own_apt_get update >&2
(
    cd "$work/download"
    own_apt_get source --download-only kubernetes >&2
    own_apt_get download etcd-server "golang-$go_version-go" "golang-$go_version-src" golang-github-modern-go-reflect2-dev >&2
)
source_archive=$(find "$work/download" -name "kubernetes_*$kubernetes.orig.tar.gz")
[ -n "$source_archive" ] || die "this Debian has no source of Kubernetes $kubernetes (Debian 12 has): set KUBEBUILDER_ASSETS"

for package in "$work"/download/*.deb; do
    dpkg-deb -x "$package" "$work/unpacked"
done
rm "$work"/download/*.deb

# --- source -----------------------------------------------------------------------------------------------
tree=$work/gopath/src/k8s.io/kubernetes
mkdir "$tree"
tar -xzf "$source_archive" -C "$tree" --strip-components=1
cd "$tree"

# The vendored reflect2 1.0.1 crashes when compiled with Go 1.18 or later, as soon as a webhook returns a patch.
reflect2=vendor/github.com/modern-go/reflect2
rm -f $reflect2/*.go $reflect2/*.s
cp "$work"/unpacked/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} $reflect2/
rm -f $reflect2/*_test.go

# Its controllers serve a port without TLS, the same for each control plane; the flag against it is gone since 1.24.
sed -i 's/InsecureKubeControllerManagerPort = 10252/InsecureKubeControllerManagerPort = 0/' pkg/cluster/ports/ports.go

export GOROOT=$work/unpacked/usr/lib/go-$go_version GOPATH=$work/gopath GOCACHE=$work/gocache
export GO111MODULE=off GOFLAGS=-trimpath CGO_ENABLED=0
go=$GOROOT/bin/go

# Debian ships the tree without generated code that only `make` writes: the OpenAPI definitions.
say "generating OpenAPI definitions"
"$go" build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=true' staging/src/k8s.io pkg | xargs -n1 dirname | sort -u |
    sed -e 's#^staging/src/##' -e 's#^pkg/#k8s.io/kubernetes/pkg/#' -e 's#^#-i #')
# shellcheck disable=SC2086 # one word each
"$work/openapi-gen" -O zz_generated.openapi --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --output-base "$GOPATH/src" -h hack/boilerplate/boilerplate.generatego.txt -r /dev/null $inputs >"$work/openapi.log" 2>&1 ||
    { tail -20 "$work/openapi.log" >&2; die "generating OpenAPI definitions failed"; }

# --- build ------------------------------------------------------------------------------------------------
say "compiling (several minutes)"
major_minor=${kubernetes%.*}
flags="-s -w"
# What it prints, and what it serves.
for package in component-base/version client-go/pkg/version; do
    for field in "Major=${major_minor%.*}" "Minor=${major_minor#*.}" "Version=v$kubernetes"; do
        flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.git$field"
    done
done
"$go" build -o "$work/result/bin/" -ldflags "$flags" ./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kubectl
cp "$work/unpacked/usr/bin/etcd" "$work/result/bin/"

# A folder is renamed onto its name whole or not at all; if some run without the lock was faster, its result serves.
mv -T "$work/result" "$built" 2>/dev/null || [ -d "$built" ] || die "cannot write \`$built\`"
say "built in $((SECONDS - began)) s"
echo "$built/bin"
