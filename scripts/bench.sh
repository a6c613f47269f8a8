#!/bin/sh
# Purpose: measure, and say on what machine.
# Usage: scripts/bench.sh registry [flags]   the registry against the cost of a commit; see
#          docs/benchmarks.md. QUICK=1 takes less than three minutes, OUT=FILE writes JSON,
#          other flags go to the harness (-cases, -clients, -variants, -profile, -dir).
#        scripts/bench.sh dispatch [flags]   a call through aipd, host and connector against the
#          connector called directly. QUICK=1 takes about a minute, OUT=FILE writes JSON.
#        scripts/bench.sh go [COUNT]         every Go benchmark, COUNT (5) times each
# Reading: compare only lines of one run. The figures of a machine that does other
#   work at the same time say little; the load is printed before and after.
# Blast radius: registry starts a private PostgreSQL server in a temporary directory and
#   removes both when it ends, also when it is interrupted. A run that is not quick writes
#   docs/benchmarks.md.
set -eu

cd "$(dirname "$0")/.."

registry() {
	mkdir -p bin
	go build -C scripts/bench -trimpath -o "$PWD/bin/registry-bench" .
	case ${QUICK:-} in
	'' | 0) [ $# -gt 0 ] || set -- -page docs/benchmarks.md ;;
	*) set -- -quick "$@" ;;
	esac
	[ -z "${OUT:-}" ] || set -- -out "$OUT" "$@"
	exec bin/registry-bench "$@"
}

dispatch() {
	mkdir -p bin
	go build -trimpath -o bin/ ./cmd/aipctl ./cmd/aipd ./cmd/aiphost
	go build -trimpath -o bin/ticketdesk ./examples/ticketdesk/server
	go build -trimpath -o bin/dispatch-bench ./scripts/latency
	case ${QUICK:-} in
	'' | 0) ;;
	*) set -- -quick "$@" ;;
	esac
	[ -z "${OUT:-}" ] || set -- -out "$OUT" "$@"
	exec bin/dispatch-bench -bin bin "$@"
}

load() { if [ -r /proc/loadavg ]; then cut -d' ' -f1-3 /proc/loadavg; else uptime; fi; }

go_benchmarks() {
	count=${1:-5}
	packages=$(grep -rlE --include='*_test.go' '^func Benchmark' . | sed 's/\/[^/]*$//' | sort -u)
	if [ -z "$packages" ]; then
		printf 'error[bench.none]: no benchmark was found\nnext: look at scripts/bench.sh\n' >&2
		exit 1
	fi
	printf '# %s, %s, %s processors\n' "$(uname -srm)" "$(go version | cut -d' ' -f3)" "$(getconf _NPROCESSORS_ONLN)"
	printf '# load before: %s\n' "$(load)"
	status=0
	for package in $packages; do
		printf '\n$ go test -run=^$ -bench=. -benchmem -count=%s %s\n' "$count" "$package"
		go test -run='^$' -bench=. -benchmem -count="$count" -timeout=60m "$package" || status=1
	done
	printf '\n# load after: %s\n' "$(load)"
	exit "$status"
}

kind=${1:-}
[ $# -eq 0 ] || shift
case $kind in
registry) registry "$@" ;;
dispatch) dispatch "$@" ;;
go) go_benchmarks "$@" ;;
*)
	printf 'error[bench.kind]: "%s" is not registry, dispatch or go\nnext: make bench BENCH=registry, or BENCH=dispatch, or BENCH=go\n' "$kind" >&2
	exit 2
	;;
esac
