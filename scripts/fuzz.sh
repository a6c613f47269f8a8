#!/bin/sh
# Purpose: run every fuzz target for a while, one after the other.
# Usage: scripts/fuzz.sh [TIME]    time for each target, as go test -fuzztime takes it; 10s
# Exit: 1 when a target fails (its input is then under testdata/fuzz), or when there is none.
set -eu

cd "$(dirname "$0")/.."
time=${1:-10s}
targets=$(grep -rEno --include='*_test.go' 'func Fuzz[A-Za-z0-9_]+' . | sed 's/^\.\/\(.*\)\/[^/]*:[0-9]*:func \(.*\)$/\1 \2/' | sort -u)
if [ -z "$targets" ]; then
	printf 'error[fuzz.none]: no fuzz target was found\nnext: look at scripts/fuzz.sh\n' >&2
	exit 1
fi
printf '%s\n' "$targets" | while read -r dir name; do
	printf '== %s %s\n' "$dir" "$name"
	go test -run='^$' -fuzz="^$name\$" -fuzztime="$time" "./$dir"
done
