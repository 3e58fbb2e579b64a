#!/bin/sh
# Writes the two files that name or hold the plugin's own files: kustomization.yaml in the repository's root and
# examples/helm/values.yaml. To be run when a file of the plugin has come, gone or changed.
set -eu

module=github.com/sluice-ratelimit/sluice

main() {
	cd "$(dirname "$0")/../.."
	version=$(awk '$1 == "github.com/traefik/traefik/v3" { print $2 }' tools/traefik/go.mod)
	kustomization >kustomization.yaml
	values >examples/helm/values.yaml
}

# plugin lists what Traefik reads of a plugin.
plugin() {
	echo .traefik.yml
	find . -maxdepth 1 -name '*.go' ! -name '*_test.go' | cut -c 3- | LC_ALL=C sort
}

kustomization() {
	cat <<-END
		# Sluice on Kubernetes, with Traefik and an example application: \`kubectl apply -k .\`, explained in examples/kubernetes.
		# It stands here, and not there, because kustomize reads no files from above its own folder.
		# Written by tools/kubernetes/manifests.sh, which knows the plugin's files.
		resources:
		  - examples/kubernetes

		configMapGenerator:
		  - name: sluice
		    namespace: traefik
		    files:
	END
	plugin | sed 's/^/      - /'
}

values() {
	cat <<-END
		# Values for Traefik's Helm chart that load Sluice as a local plugin.
		# Written by tools/kubernetes/manifests.sh from the plugin's own files.
		image:
		  tag: $version

		global:
		  checkNewVersion: false

		deployment:
		  podAnnotations:
		    sluice-ratelimit/source: "$(plugin | xargs cat | sha256sum | cut -c 1-16)" # so that a new version starts new pods

		experimental:
		  abortOnPluginFailure: true # rather than to run on with no limits at all
		  localPlugins:
		    sluice:
		      type: inlinePlugin
		      moduleName: $module
		      mountPath: /plugins-local/src/$module
		      source:
	END
	for file in $(plugin); do
		echo "        $file: |"
		sed 's/^./          &/' "$file"
	done
}

main
