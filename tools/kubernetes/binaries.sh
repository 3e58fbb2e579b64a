#!/bin/sh
# Prints the absolute path of a folder with kube-apiserver, kubectl and etcd, built here from source, once, and kept in
# the repository's .cache folder. Everything but the path goes to stderr.
set -eu

main() {
	cd "$(dirname "$0")"
	. ../build.sh
	version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod)
	minor=${version#v1.}
	stamp="-X k8s.io/component-base/version"
	no_inlining=all=-l # which takes a third off the time, and tests need no fast API server
	build_once Kubernetes "$version" "seven minutes" \
		"-s -w $stamp.gitVersion=$version $stamp.gitMajor=1 $stamp.gitMinor=${minor%%.*}" "$no_inlining" \
		k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl go.etcd.io/etcd/server/v3
	[ -e "$built/etcd" ] || ln -s server "$built/etcd" # Go has called it after its package's folder
	echo "$built"
}

main
