#!/bin/sh
# Prints the absolute path of a Traefik v3 binary: the one that $TRAEFIK names, or the one on the
# PATH, or else one built here from source, once, and kept in the repository's .cache folder.
# Everything but the path goes to stderr. `make demo` and the tests all get their Traefik here.
set -eu

main() {
	if [ -n "${TRAEFIK:-}" ]; then
		if [ ! -f "$TRAEFIK" ] || [ ! -x "$TRAEFIK" ]; then
			fail "TRAEFIK is set to $TRAEFIK, which is not an executable file."
		fi
		absolute "$TRAEFIK"
	elif on_path=$(command -v traefik) && "$on_path" version 2>/dev/null | grep -q '^Version: *v*3\.'; then
		absolute "$on_path"
	else
		cd "$(dirname "$0")"
		cache=$(cd ../.. && pwd)/.cache
		version=$(awk '$1 == "github.com/traefik/traefik/v3" { print $2 }' go.mod)
		ldflags="-s -w -X github.com/traefik/traefik/v3/pkg/version.Version=${version#v}"
		binary=$cache/traefik-$version-$(fingerprint)
		[ -x "$binary" ] || build
		echo "$binary"
	fi
}

# fingerprint is a number that changes with whatever goes into the binary. Being part of its name,
# it makes a binary that is out of date one that does not exist.
fingerprint() {
	{
		uname -sm
		echo "$ldflags"
		find go.mod go.sum ext lego -type f | LC_ALL=C sort | xargs cat
	} | cksum | cut -d ' ' -f 1
}

build() {
	command -v go >/dev/null || fail "Traefik has to be built, which needs Go (https://go.dev/dl). Or set TRAEFIK to a Traefik v3 binary."
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/traefik.XXXXXX") child=
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM

	seconds=0
	take_turn
	if [ -x "$binary" ]; then # whoever had the turn before has built it
		return
	fi
	seconds=0
	say "Building Traefik $version from source, once: about five minutes on two cores."
	export CGO_ENABLED=0 GOWORK=off
	set -- -mod=readonly -trimpath github.com/traefik/traefik/v3/cmd/traefik
	run fetching go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$@"
	total=$(grep -c . "$work/stdout") || : # of packages that are not in Go's build cache
	run compiling go build -v -ldflags "$ldflags" -o "$work/traefik" "$@"
	mv "$work/traefik" "$binary"
	say "Built Traefik $version in $((seconds / 60)) min $((seconds % 60)) s."
}

# take_turn waits until no other process builds. It saves work; what keeps the binary whole is that
# it is moved into place when finished. The lock is a link that points to a process id, since
# making a link is atomic, id and all, and a lock whose process has died can be told by it.
take_turn() {
	lock=$cache/traefik.lock
	until ln -s $$ "$lock" 2>/dev/null; do
		owner=$(readlink "$lock") || owner=
		if [ "$owner" != $$ ] && kill -0 "$owner" 2>/dev/null; then
			progress "Waiting for process $owner to build Traefik $version"
			pause
		else
			rm -f "$lock"
		fi
	done
	trap 'kill $child 2>/dev/null || :; rm -rf "$work" "$lock"' EXIT
}

# run STATUS COMMAND... runs the command and says meanwhile how far it is.
run() {
	status=$1
	shift
	"$@" >"$work/stdout" 2>"$work/stderr" &
	child=$!
	while kill -0 "$child" 2>/dev/null; do
		pause
		progress "$($status "$(grep -c . "$work/stderr")")"
	done
	if ! wait "$child"; then
		say "Traefik could not be built:"
		grep -v -e '^go: downloading' -e '^[^ :]*$' "$work/stderr" >&2 # all but what `status` counts
		exit 1
	fi
	child=
}

fetching() { echo "$1 modules downloaded"; }

compiling() {
	if [ $(($1 + 1)) -lt "$total" ]; then
		echo "$((100 * $1 / total))% ($1 of $total packages compiled)"
	else
		echo "100% (linking)"
	fi
}

pause() {
	sleep 1
	seconds=$((seconds + 1))
}

# progress rewrites one line of a terminal; into a file or a pipe it writes a line now and then.
progress() {
	if [ -t 2 ]; then
		printf '\r%-60s' "$1" >&2
	elif [ $((seconds % 20)) -eq 0 ]; then
		echo "$1" >&2
	fi
}

say() {
	[ ! -t 2 ] || printf '\r%-60s\r' '' >&2 # over the line of progress
	echo "$1" >&2
}

fail() {
	say "$1"
	exit 1
}

absolute() { echo "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"; }

main
