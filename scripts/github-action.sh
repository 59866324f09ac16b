#!/usr/bin/env bash
# The step of action.yml: annotations, a job summary, and one comment of the pull request that each run updates. It exits
# with the code of `kubectl headroom check`.
set -euo pipefail

repository=headroom-dev/headroom
marker='<!-- headroom check -->'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "::error title=Headroom::$1"
  exit 2
}

# Downloads the release for this runner, verifies its digest, and prints the path of the program.
download() {
  local version platform archive expected found
  version=${INPUT_VERSION:-$(sed -n 's/^  version: //p' "$GITHUB_ACTION_PATH/deploy/krew/headroom.yaml")}
  case $RUNNER_OS-$RUNNER_ARCH in
    Linux-X64) platform=linux-amd64 ;;
    Linux-ARM64) platform=linux-arm64 ;;
    macOS-X64) platform=darwin-amd64 ;;
    macOS-ARM64) platform=darwin-arm64 ;;
    *) fail "there is no kubectl-headroom for $RUNNER_OS on $RUNNER_ARCH" >&2 ;;
  esac
  archive=kubectl-headroom-$platform.tar.gz
  get() { curl -sSfL --retry 3 -o "$work/$1" "https://github.com/$repository/releases/download/$version/$1"; }
  get "$archive" >&2 || fail "cannot download $archive of release $version" >&2
  expected=${INPUT_SHA256:-}
  if [ -z "$expected" ]; then
    get SHA256SUMS >&2 || fail "cannot download SHA256SUMS of release $version" >&2
    expected=$(awk -v name="$archive" '$2 == name || $2 == "*" name {print $1}' "$work/SHA256SUMS")
    # Who can replace the archive can replace SHA256SUMS, but not sign as the release's workflow.
    gh attestation verify "$work/$archive" --repo "$repository" >&2 || fail "$archive has no valid build provenance of $repository" >&2
  fi
  found=$(sha256sum "$work/$archive" 2>/dev/null || shasum -a 256 "$work/$archive")
  [ "${found%% *}" = "$expected" ] || fail "$archive has the digest ${found%% *}, expected ${expected:-one in SHA256SUMS}" >&2
  tar -xzf "$work/$archive" -C "$work" kubectl-headroom
  echo "$work/kubectl-headroom"
}

# Creates or updates the comment with the text of a file.
comment() {
  local comments existing
  comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments
  # Only a comment of a workflow or app: others could write the marker, too.
  existing=$(gh api --paginate "$comments" \
    --jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$marker\"))) | .id") || return
  existing=${existing%%$'\n'*}
  if [ -n "$existing" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$existing" -F "body=@$1"
  else
    gh api --silent --method POST "$comments" -F "body=@$1"
  fi
}

program=${INPUT_PROGRAM:-$(download)}
# Split at blanks, without expanding patterns.
read -ra arguments <<<"$(tr '\n' ' ' <<<"$INPUT_ARGUMENTS")"

# What reads the files of a pull request gets no token.
check() { env -u GH_TOKEN -u GITHUB_TOKEN "$program" check "$@"; }
code=0
check "${arguments[@]}" -o github || code=$?
check "${arguments[@]}" -o markdown >"$work/result.md" 2>"$work/errors" || true
[ -s "$work/result.md" ] ||
  printf '**Nothing was checked**\n\n```text\n%s\n```\n' "$(head -c 10000 "$work/errors")" >"$work/result.md"
{ printf '## Headroom\n\n'; cat "$work/result.md"; } >>"$GITHUB_STEP_SUMMARY"
if [ "$INPUT_COMMENT" = true ] && [ -n "$PULL_REQUEST" ]; then
  # GitHub accepts 65,536 characters.
  { printf '%s\n### Headroom\n\n' "$marker"; head -c 60000 "$work/result.md"; } >"$work/comment.md"
  comment "$work/comment.md" ||
    echo "::notice title=Headroom::the comment was not written: give the job the permission pull-requests: write; a run for a fork has none"
fi
exit "$code"
