#!/usr/bin/env bash
# The step of action.yml. In mode `check`: annotations, a job summary, and one comment of the pull request that each run
# updates. In mode `recommend`: one pull request with the recommendations, which each run updates. It exits with the code of
# `kubectl headroom`.
set -euo pipefail

repository=headroom-dev/headroom
marker='<!-- headroom check -->'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A checkout may name programs that Git starts, which would get the token.
git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"; }

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

# Adds a file to the job's summary, of which GitHub drops the whole if it is above a mebibyte.
summarize() {
  { printf '## Headroom\n\n'; head -c 1000000 "$1"; } >>"$GITHUB_STEP_SUMMARY"
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

# Commits what `recommend --write` changed, and opens a pull request for it or updates the one that there is.
recommend() {
  local base branch changes commit digest existing number state is_merged mark old text
  [ -z "$PULL_REQUEST" ] || fail "mode recommend writes to the repository: run it on a schedule, not for pull requests"
  base=$GITHUB_REF_NAME branch=$INPUT_BRANCH text=$work/pull-request.md
  [[ $branch =~ ^[A-Za-z0-9][A-Za-z0-9._/-]*$ && $branch != "$base" ]] || fail "the branch must have a plain name that is not $base"
  git diff --quiet HEAD -- || fail "the checkout has changes that are not committed"
  [[ " $* " == *" --write"* ]] || set -- "$@" --write
  # Nothing that reads usage or manifests gets the token.
  env -u GH_TOKEN -u GITHUB_TOKEN "$program" recommend "$@" -o pull-request >"$text" || code=$?
  summarize "$text"
  # By a part of the usage nobody should decide.
  [ "$code" -lt 2 ] || return 0
  if [ "$code" = 1 ]; then
    echo "::warning title=Headroom::some recommendations were left out or not written: see the log and the summary"
    code=0
  fi
  git add --update
  if git diff --cached --quiet HEAD --; then
    echo "::notice title=Headroom::nothing to recommend: the manifests have these values already"
    return
  fi
  # The lines alone, so that it stays the same when others change what is around them.
  changes=$(git diff --cached --unified=0 --no-color --no-ext-diff --no-textconv HEAD -- | grep -E '^[-+]')
  digest=$(git hash-object --stdin <<<"$changes")
  mark="<!-- headroom recommend $digest -->"
  existing=$(gh api "repos/$GITHUB_REPOSITORY/pulls?head=${GITHUB_REPOSITORY%%/*}:$branch&state=all&per_page=1" \
    --jq '.[0] // empty | [.number, .state, (.merged_at != null), (.body // "" | split("\n")[0] | rtrimstr("\r"))] | @tsv') ||
    fail "the pull requests cannot be listed: give the job the permissions contents: write and pull-requests: write"
  IFS=$'\t' read -r number state is_merged old <<<"$existing" || true
  if [ "$state" = closed ] && [ "$is_merged" = false ] && [ "$old" = "$mark" ]; then
    echo "::notice title=Headroom::pull request #$number with these changes was closed: it is not opened again"
    return
  fi
  [ "$state" = open ] || number=
  old=
  if git fetch --quiet --depth=1 origin "refs/heads/$branch" 2>/dev/null; then
    old=$(git rev-parse FETCH_HEAD)
    if [ "$(git show -s --format=%ce "$old")" != "$email" ]; then
      echo "::notice title=Headroom::branch $branch has commits of others: it is not updated"
      return
    fi
  fi
  commit=$(git write-tree)
  if [ -n "$number" ] && [ -n "$old" ] && [ "$(git rev-parse "$old^{tree}")" = "$commit" ]; then
    echo "pull request #$number has these changes already"
    return
  fi
  # Without signatures, which a checkout may ask for.
  commit=$(GIT_AUTHOR_NAME=Headroom GIT_AUTHOR_EMAIL=$email GIT_COMMITTER_NAME=Headroom GIT_COMMITTER_EMAIL=$email \
    git commit-tree "$commit" -p HEAD -m "$title")
  git push --quiet --force-with-lease="refs/heads/$branch:$old" origin "$commit:refs/heads/$branch" ||
    fail "branch $branch cannot be pushed: give the job the permission contents: write"
  # GitHub accepts 65,536 characters.
  { printf '%s\n' "$mark"; head -c 60000 "$text"; } >"$work/body.md"
  if [ -n "$number" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/pulls/$number" -F "body=@$work/body.md"
  else
    gh api --silent --method POST "repos/$GITHUB_REPOSITORY/pulls" \
      -f "title=$title" -f "head=$branch" -f "base=$base" -F "body=@$work/body.md" ||
      fail "the pull request cannot be opened: let GitHub Actions create pull requests, in the repository's settings"
  fi
}

title='Size requests by usage'
email=recommend@headroom.invalid
program=${INPUT_PROGRAM:-$(download)}
code=0
# Split at blanks, without expanding patterns.
read -ra arguments <<<"$(tr '\n' ' ' <<<"$INPUT_ARGUMENTS")"

# What reads the files of a pull request gets no token.
check() { env -u GH_TOKEN -u GITHUB_TOKEN "$program" check "$@"; }
case ${INPUT_MODE:-check} in
  check) ;;
  recommend)
    recommend "${arguments[@]}"
    exit "$code"
    ;;
  *) fail "the mode is check or recommend" ;;
esac
check "${arguments[@]}" -o github || code=$?
check "${arguments[@]}" -o markdown >"$work/result.md" 2>"$work/errors" || true
[ -s "$work/result.md" ] ||
  printf '**Nothing was checked**\n\n```text\n%s\n```\n' "$(head -c 10000 "$work/errors")" >"$work/result.md"
summarize "$work/result.md"
if [ "$INPUT_COMMENT" = true ] && [ -n "$PULL_REQUEST" ]; then
  # GitHub accepts 65,536 characters.
  { printf '%s\n### Headroom\n\n' "$marker"; head -c 60000 "$work/result.md"; } >"$work/comment.md"
  comment "$work/comment.md" ||
    echo "::notice title=Headroom::the comment was not written: give the job the permission pull-requests: write; a run for a fork has none"
fi
exit "$code"
