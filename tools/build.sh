# Builds programs from the module in the current folder, once, and keeps them in the repository's .cache folder. Scripts that
# need some source this file, after they have changed to the module's folder, which is two below the root. All that it
# says goes to stderr.

# build_once NAME VERSION DURATION LDFLAGS GCFLAGS PACKAGE... sets the variable built to the absolute path of the binary
# that is made of the package or, if there are several packages, of the folder with their binaries. DURATION tells people
# how long to wait, and the variable advice, if it is set, what else they can do if there is no Go.
build_once() {
	title="$1 $2"
	duration=$3
	ldflags=$4
	gcflags=$5
	name=$(echo "$1" | tr 'A-Z ' 'a-z-')
	cache=$(cd ../.. && pwd)/.cache
	built=$cache/$name-$2-$(fingerprint)
	shift 5
	[ -x "$built" ] || build "$@"
}

# fingerprint is a number that changes with whatever goes into the binary. Being part of its name,
# it makes a binary that is out of date one that does not exist.
fingerprint() {
	{
		uname -sm
		echo "$ldflags${gcflags:+ $gcflags}"
		find . -type f ! -name '*.sh' ! -name '*.md' | LC_ALL=C sort | xargs cat
	} | cksum | cut -d ' ' -f 1
}

build() {
	command -v go >/dev/null || fail "$title has to be built, which needs Go (https://go.dev/dl).${advice:+ $advice}"
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/$name.XXXXXX") child=
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM

	seconds=0
	take_turn
	if [ -x "$built" ]; then # whoever had the turn before has built it
		return
	fi
	seconds=0
	say "Building $title from source, once: about $duration on two cores."
	export CGO_ENABLED=0 GOWORK=off
	[ $# -eq 1 ] || mkdir "$work/built" # then Go puts the binaries in there
	set -- -mod=readonly -trimpath -gcflags "$gcflags" "$@"
	run fetching go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$@"
	total=$(grep -c . "$work/stdout") || : # of packages that are not in Go's build cache
	run compiling go build -v -ldflags "$ldflags" -o "$work/built" "$@"
	mv "$work/built" "$built"
	say "Built $title in $((seconds / 60)) min $((seconds % 60)) s."
}

# take_turn waits until no other process builds. It saves work; what keeps the binary whole is that
# it is moved into place when finished. The lock is a link that points to a process id, since
# making a link is atomic, id and all, and a lock whose process has died can be told by it.
take_turn() {
	lock=$cache/$name.lock
	until ln -s $$ "$lock" 2>/dev/null; do
		owner=$(readlink "$lock") || owner=
		if [ "$owner" != $$ ] && kill -0 "$owner" 2>/dev/null; then
			progress "Waiting for process $owner to build $title"
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
		say "$title could not be built:"
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
