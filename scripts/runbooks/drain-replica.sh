#!/bin/sh
# Purpose: take one replica out of service without losing work, and prove that it is
#   empty before anybody stops its process.
# Inputs:
#   REPLICA              the replica's id (crepl_…)
#   --reason TEXT        why; recorded in the registry's journal (required)
#   --deadline DURATION  how long to wait for pinned work; 10m
#   --rollback           on a timeout, let the replica take work again
#   --allow-last         go on although no other replica of its instance is ready
#   --dry-run            show what would be done, and change nothing
#   AIPCTL               the program to use; aipctl
#   AIPCTL_CONFIG, AIPCTL_CONTEXT   the target, as aipctl reads them
# Preconditions: the target's context names control and readonly database URLs; the
#   replica exists; another replica of its instance is ready (or --allow-last).
# Blast radius: one replica. New work goes to the other replicas of its instance; work
#   that is pinned to it stays with it and is waited for. Nothing is cut off.
# Many at once: not by this script. aipctl drains an instance, a version, a zone, a region
#   or a list, some at a time, and gives each replica a result of its own:
#     aipctl drain zone ZONE --batch 2 --batch-wait 30s --dry-run
#     aipctl drain zone ZONE --max-unavailable 1 --deadline 1h --reason TEXT
#     aipctl drain replica -f FILE --batch 2 --on-error stop --reason TEXT
#   Exit: 0 all are drained · 6 some still wait for pinned work · 8 some failed or were not
#   begun. The same command again goes on where it ended.
# Rollback: aipctl undrain replica REPLICA --reason TEXT; with --rollback the script
#   does it itself when the deadline passes.
# Output: one JSON document of aipctl on stdout; what is being done on stderr.
# Exit: 0 drained (or dry run) · 2 usage · 3 no such replica · 5 the precondition does
#   not hold · 6 not drained in time, named blockers still run · else as aipctl.
set -eu

aipctl=${AIPCTL:-aipctl}
replica= reason= deadline=10m rollback=no allow_last=no dry_run=no

say() { printf 'drain-replica: %s\n' "$*" >&2; }
stop() { # CODE ERROR WHAT NEXT
	printf 'error[runbook.%s]: %s\nnext: %s\n' "$2" "$3" "$4" >&2
	exit "$1"
}
usage() { stop 2 usage "$1" "$0 REPLICA --reason TEXT [--deadline 10m] [--rollback] [--allow-last] [--dry-run]"; }

while [ $# -gt 0 ]; do
	case $1 in
	--reason | --deadline)
		[ $# -ge 2 ] || usage "$1 needs a value"
		if [ "$1" = --reason ]; then reason=$2; else deadline=$2; fi
		shift
		;;
	--rollback) rollback=yes ;;
	--allow-last) allow_last=yes ;;
	--dry-run) dry_run=yes ;;
	-h | --help)
		sed -n '2,/^set -eu$/s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	-*) usage "there is no flag $1" ;;
	*)
		[ -z "$replica" ] || usage "one replica at a time, got $replica and $1; for many: $aipctl drain replica $replica $1 --batch 1"
		replica=$1
		;;
	esac
	shift
done
[ -n "$replica" ] || usage 'the replica is missing'
[ -n "$reason" ] || usage '--reason is missing'
command -v "$aipctl" >/dev/null 2>&1 || stop 2 no_aipctl "there is no program $aipctl" 'set AIPCTL to the path of aipctl'

# field PATH prints one member of the replica's record, as the JSON output has it.
field() { "$aipctl" get replicas "$replica" -o "template={{range .items}}{{$1}}{{end}}"; }

# 1. The replica must exist. aipctl says 3 when it does not.
instance=$(field .instance_id) || exit $?
status=$(field .live.status)
intent=$(field .live.intent)
say "$replica of $instance is $status, the operator's intent is $intent"

# 2. Somebody else must be able to take the instance's new work.
others=$("$aipctl" get replicas --instance "$instance" --all -o "template={{range .items}}{{if and (eq .live.status \"ready\") (eq .live.intent \"run\") (ne .id \"$replica\")}}{{.id}} {{end}}{{end}}") || exit $?
say "others that take work of $instance: ${others:-none}"
if [ -z "$others" ] && [ "$allow_last" = no ]; then
	stop 5 last_replica "$replica is the last ready replica of $instance" 'start another replica, or repeat with --allow-last'
fi

# 3. What would be done.
if [ "$dry_run" = yes ]; then
	say 'dry run: nothing is changed'
	exec "$aipctl" drain replica "$replica" --dry-run -o json
fi

# 4. Drain. The intent acts on routing at once; aipctl waits for what is pinned.
say "draining, for at most $deadline"
code=0
"$aipctl" drain replica "$replica" --deadline "$deadline" --yes --confirm "$replica" --reason "$reason" -o json || code=$?

# 5. What it came to.
case $code in
0)
	say "$replica is drained: its process may be stopped"
	;;
6)
	say "not drained within $deadline; what still holds it:"
	"$aipctl" get routes --replica "$replica" --reserved --all -o name >&2 || true
	if [ "$rollback" = yes ]; then
		say 'rolling back: the replica takes work again'
		"$aipctl" undrain replica "$replica" --reason "rollback: $reason" -o json >/dev/null || stop 8 rollback 'the rollback failed' "aipctl undrain replica $replica"
	else
		say "the drain goes on; take it back with: $aipctl undrain replica $replica"
	fi
	;;
*)
	say "aipctl ended with exit code $code; look with: $aipctl describe replica $replica"
	;;
esac
exit "$code"
