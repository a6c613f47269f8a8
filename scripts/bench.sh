#!/bin/sh
# Purpose: run every Go benchmark and say on what machine.
# Usage: scripts/bench.sh [COUNT]    repetitions of each benchmark; 5
# Reading: compare only lines of one run. The figures of a machine that does other
#   work at the same time say little; the load is printed before and after.
set -eu

cd "$(dirname "$0")/.."
count=${1:-5}
packages=$(grep -rlE --include='*_test.go' '^func Benchmark' . | sed 's/\/[^/]*$//' | sort -u)
if [ -z "$packages" ]; then
	printf 'error[bench.none]: no benchmark was found\nnext: look at scripts/bench.sh\n' >&2
	exit 1
fi
load() { if [ -r /proc/loadavg ]; then cut -d' ' -f1-3 /proc/loadavg; else uptime; fi; }
printf '# %s, %s, %s processors\n' "$(uname -srm)" "$(go version | cut -d' ' -f3)" "$(getconf _NPROCESSORS_ONLN)"
printf '# load before: %s\n' "$(load)"
status=0
for package in $packages; do
	printf '\n$ go test -run=^$ -bench=. -benchmem -count=%s %s\n' "$count" "$package"
	go test -run='^$' -bench=. -benchmem -count="$count" -timeout=60m "$package" || status=1
done
printf '\n# load after: %s\n' "$(load)"
exit "$status"
