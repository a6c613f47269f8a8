#!/bin/sh
# Purpose: measure, and say on what machine.
# Usage: scripts/bench.sh registry [flags]   the registry against the cost of a commit; see
#          docs/benchmarks.md. QUICK=1 takes less than three minutes, OUT=FILE writes JSON,
#          other flags go to the harness (-cases, -clients, -variants, -profile, -dir).
#        scripts/bench.sh dispatch [flags]   a call through aipd, host and connector against the
#          connector called directly; the daemons at rest; a journal alone. QUICK=1 takes about a minute, OUT=FILE writes JSON,
#          -clients 1,32,256 are the numbers of callers.
#        scripts/bench.sh admission [COUNT]  what it costs to judge a release package: signed with keys, and
#          by a short-lived certificate that is logged and stamped. OUT=FILE writes JSON.
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

# figures turns the lines of Go benchmarks into the form that every benchmark here writes:
# the median of each, in the order of the lines.
figures() {
	awk -v started="$1" -v before="$2" -v after="$(load)" -v kernel="$(uname -srm)" -v go="$(go version | cut -d' ' -f3)" \
		-v processors="$(getconf _NPROCESSORS_ONLN)" '
	function median(name,    n, i, j, v, list) {
		n = split(times[name], list, " ")
		for (i = 2; i <= n; i++) {
			v = list[i] + 0
			for (j = i - 1; j >= 1 && list[j] + 0 > v; j--) list[j + 1] = list[j]
			list[j + 1] = v
		}
		return (n % 2) ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
	}
	/^cpu: / { processor = substr($0, 6) }
	/^Benchmark/ && $4 == "ns/op" {
		name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
		if (!(name in times)) order[++count] = name
		times[name] = times[name] " " $3; bytes[name] = $5; allocations[name] = $7; runs[name]++
	}
	END {
		if (!count) exit 1
		printf "{\n \"machine\": {\"system\": \"%s\", \"processor\": \"%s\", \"processors\": %d, \"go\": \"%s\", \"started\": \"%s\", \"load_before\": \"%s\", \"load_after\": \"%s\"},\n \"results\": [", kernel, processor, processors, go, started, before, after
		for (i = 1; i <= count; i++) {
			name = order[i]; ns = median(name)
			printf "%s\n  {\"case\": \"admission\", \"variant\": \"%s\", \"rounds\": %d, \"clients\": 1, \"ops_per_s\": %.1f, \"p50_ms\": %.3f, \"more\": {\"bytes_per_op\": %d, \"allocations_per_op\": %d}}", (i > 1 ? "," : ""), name, runs[name], 1e9 / ns, ns / 1e6, bytes[name], allocations[name]
		}
		printf "\n ]\n}\n"
	}'
}

admission() {
	count=${1:-5}
	[ -z "${QUICK:-}" ] || [ "${QUICK:-}" = 0 ] || count=1
	started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
	before=$(load)
	lines=$(go test -run='^$' -bench=Evaluate -benchmem -count="$count" -timeout=60m ./pkg/admission)
	printf '%s\n' "$lines"
	[ -z "${OUT:-}" ] || printf '%s\n' "$lines" | figures "$started" "$before" >"$OUT"
}

kind=${1:-}
[ $# -eq 0 ] || shift
case $kind in
registry) registry "$@" ;;
dispatch) dispatch "$@" ;;
admission) admission "$@" ;;
go) go_benchmarks "$@" ;;
*)
	printf 'error[bench.kind]: "%s" is not registry, dispatch, admission or go\nnext: make bench BENCH=registry, or BENCH=dispatch, BENCH=admission or BENCH=go\n' "$kind" >&2
	exit 2
	;;
esac
