#!/bin/sh
# Purpose: everything about the source that a machine can check without running the
#   fleet: module file, format, vet, staticcheck, the architecture diagram.
# Usage: scripts/verify.sh
# Blast radius: none; it fails when the tree differs from what it was before.
set -eu

cd "$(dirname "$0")/.."
failed=0
step() {
	printf 'verify: %s\n' "$1" >&2
	shift
	"$@" || failed=1
}
formatted() {
	wrong=$(find . -name '*.go' -not -path './.git/*' -not -path './.run/*' -exec gofmt -l {} +)
	[ -z "$wrong" ] || {
		printf 'error[verify.format]: not formatted:\n%s\nnext: gofmt -w on these files\n' "$wrong" >&2
		return 1
	}
}

before=$(git status --porcelain)
step 'go.mod says exactly what is imported' go mod tidy -diff
step 'modules are what go.sum says' go mod verify
step 'gofmt' formatted
step 'go vet' go vet ./...
step 'staticcheck' go tool staticcheck ./...
step 'the architecture diagram' go test -count=1 -run '^TestLayout' ./pkg
if [ "$(git status --porcelain)" != "$before" ]; then
	printf 'error[verify.tree]: the checks changed the working tree\nnext: git status\n' >&2
	failed=1
fi
exit "$failed"
