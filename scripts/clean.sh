#!/bin/sh
# Purpose: remove what builds and private fleets left in the checkout.
# Usage: scripts/clean.sh
# Blast radius: bin and .run of this checkout. Fleets under .run are stopped first;
#   when one cannot be stopped, nothing is removed.
set -eu

cd "$(dirname "$0")/.."
for fleet in .run/*/; do
	[ -d "$fleet" ] || continue
	if [ -x bin/aipctl ]; then
		bin/aipctl dev down --purge --dir "$fleet"
	elif [ -n "$(find "$fleet" -name postmaster.pid -print -quit)" ]; then
		printf 'error[clean.running]: a fleet in %s may be running, and bin/aipctl is gone\nnext: make build, then make clean\n' "$fleet" >&2
		exit 1
	fi
done
rm -rf bin .run
