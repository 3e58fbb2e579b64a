#!/bin/sh
# Prints the absolute path of a Traefik v3 binary: the one that $TRAEFIK names, or the one on the
# PATH, or else one built here from source, once, and kept in the repository's .cache folder.
# Everything but the path goes to stderr. `make demo` and the tests all get their Traefik here.
set -eu

main() {
	if [ -n "${TRAEFIK:-}" ]; then
		if [ ! -f "$TRAEFIK" ] || [ ! -x "$TRAEFIK" ]; then
			echo "TRAEFIK is set to $TRAEFIK, which is not an executable file." >&2
			exit 1
		fi
		absolute "$TRAEFIK"
	elif on_path=$(command -v traefik) && "$on_path" version 2>/dev/null | grep -q '^Version: *v*3\.'; then
		absolute "$on_path"
	else
		cd "$(dirname "$0")"
		. ../build.sh
		advice="Or set TRAEFIK to a Traefik v3 binary."
		version=$(awk '$1 == "github.com/traefik/traefik/v3" { print $2 }' go.mod)
		build_once Traefik "$version" "five minutes" \
			"-s -w -X github.com/traefik/traefik/v3/pkg/version.Version=${version#v}" "" \
			github.com/traefik/traefik/v3/cmd/traefik
		echo "$built"
	fi
}

absolute() { echo "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"; }

main
