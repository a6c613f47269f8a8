#!/bin/sh
# Purpose: make sure that this machine has what the build and the tests need: Go,
#   and the server programs of PostgreSQL (initdb and postgres).
# Usage: scripts/setup.sh            check, and install PostgreSQL when it is missing
#        scripts/setup.sh --check    only check; exit 1 when something is missing
#        scripts/setup.sh --where    print the directory of the server programs
# Preconditions: to install, root or sudo, and a known package manager.
# Blast radius: installs the distribution's package; creates no cluster and starts
#   no service, and leaves a running server alone.
set -eu

minimum=14
root=$(cd "$(dirname "$0")/.." && pwd)

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
	printf 'error[setup.%s]: %s\nnext: %s\n' "$1" "$2" "$3" >&2
	exit 1
}

# server_dirs lists where the server programs may be: PATH first, then where the
# distributions put them, then where pg_config points.
server_dirs() {
	printf '%s\n' "$PATH" | tr ':' '\n'
	for dir in /usr/lib/postgresql/*/bin /usr/libexec/postgresql* /usr/pgsql-*/bin \
		/usr/local/opt/postgresql*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/pgsql/bin; do
		printf '%s\n' "$dir"
	done
	if command -v pg_config >/dev/null 2>&1; then pg_config --bindir; fi
}

# find_server prints the directory of the newest sufficient server.
find_server() {
	server_dirs | while IFS= read -r dir; do
		[ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] || continue
		version=$("$dir/postgres" --version 2>/dev/null | sed -n 's/.*(PostgreSQL) \([0-9][0-9]*\).*/\1/p')
		[ -n "$version" ] && [ "$version" -ge "$minimum" ] || continue
		printf '%s %s\n' "$version" "$dir"
	done | sort -s -k1,1nr | sed -n '1s/^[0-9]* //p'
}

check_go() {
	command -v go >/dev/null 2>&1 ||
		die no_go "Go is not installed" "install Go $(sed -n 's/^go //p' "$root/go.mod") or newer and put it into PATH"
	# A toolchain that is too old either fetches the right one or says so here.
	(cd "$root" && go list -m >/dev/null) ||
		die old_go "this Go cannot build the module" "install Go $(sed -n 's/^go //p' "$root/go.mod") or newer"
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		die not_root "PostgreSQL $minimum or newer is missing, and installing it needs root" \
			"run as root: $*"
	fi
}

# On Debian the server package creates a cluster and starts it, unless
# createcluster.conf says otherwise. It says so only while we install.
install_debian() {
	conf=/etc/postgresql-common/createcluster.conf
	as_root apt-get update -q
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql-common
	as_root cp "$conf" "$conf.aipfleet-saved"
	printf 'create_main_cluster = false\n' | as_root tee -a "$conf" >/dev/null
	installed=0
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql || installed=$?
	as_root mv "$conf.aipfleet-saved" "$conf"
	return "$installed"
}

install_server() {
	say "PostgreSQL $minimum or newer was not found: installing it with the system's package manager"
	if command -v apt-get >/dev/null 2>&1; then
		install_debian
	elif command -v dnf >/dev/null 2>&1; then
		as_root dnf install -y postgresql-server
	elif command -v apk >/dev/null 2>&1; then
		as_root apk add postgresql
	elif command -v zypper >/dev/null 2>&1; then
		as_root zypper --non-interactive install postgresql-server
	elif command -v brew >/dev/null 2>&1; then
		brew install postgresql@17
	else
		die no_package_manager "PostgreSQL $minimum or newer is missing, and no known package manager is here" \
			"install its server programs and put initdb and postgres into PATH"
	fi
}

mode=${1:-install}
case $mode in
--where)
	find_server
	exit 0
	;;
install | --check) ;;
*)
	printf 'usage: %s [--check | --where]\n' "$0" >&2
	exit 2
	;;
esac

check_go
found=$(find_server)
if [ -z "$found" ] && [ "$mode" = --check ]; then
	die no_postgres "PostgreSQL $minimum or newer is not installed" "make setup"
fi
if [ -z "$found" ]; then
	install_server || die install_failed "the package manager could not install PostgreSQL" "read its message above, then make setup"
	found=$(find_server)
	[ -n "$found" ] || die no_postgres "the installed package has no PostgreSQL $minimum or newer" \
		"install a newer one and put initdb and postgres into PATH"
	say "installed"
fi
say "$(go version | cut -d' ' -f3), PostgreSQL server programs in $found"
