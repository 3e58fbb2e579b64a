package kubernetes

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestPlugin looks for the whole plugin in the ConfigMap: every Go file of the repository's root that is not a test, and the
// manifest, all of them as they are.
func TestPlugin(t *testing.T) {
	data := plugin(t, repository())["data"].(map[string]any)
	for _, name := range pluginFiles(t) {
		text, err := os.ReadFile(filepath.Join(repository(), name))
		require.NoError(t, err)
		require.True(t, data[name] == string(text), "%s is not in kustomization.yaml: `make helm-values` adds it", name)
		delete(data, name)
	}
	require.Empty(t, data, "files in the ConfigMap that are not of the plugin")
}

// TestHelmValues looks for the same in the values for Traefik's chart, mounted where the Deployment mounts the ConfigMap.
func TestHelmValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository(), "examples", "helm", "values.yaml"))
	require.NoError(t, err)
	var values struct {
		Experimental struct {
			LocalPlugins struct {
				Sluice struct {
					Type       string
					ModuleName string            `yaml:"moduleName"`
					MountPath  string            `yaml:"mountPath"`
					Source     map[string]string `yaml:"source"`
				}
			} `yaml:"localPlugins"`
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &values))
	sluice := values.Experimental.LocalPlugins.Sluice
	require.Equal(t, "inlinePlugin", sluice.Type)
	pod := traefikPod(t, repository())
	require.Equal(t, sluice.MountPath, pod.Containers[0].VolumeMounts[0].MountPath)
	require.Contains(t, pod.Containers[0].Args, "--experimental.localPlugins.sluice.moduleName="+sluice.ModuleName)

	want := map[string]string{}
	for _, name := range pluginFiles(t) {
		source, err := os.ReadFile(filepath.Join(repository(), name))
		require.NoError(t, err)
		want[name] = string(source)
	}
	require.True(t, maps.Equal(want, sluice.Source), "examples/helm/values.yaml is out of date: `make helm-values` mends it")
}

// TestPluginFits keeps room in the ConfigMap: `kubectl apply` without --server-side stores a copy of it in an annotation, and those
// may have 256 KiB together.
func TestPluginFits(t *testing.T) {
	text, err := json.Marshal(plugin(t, repository()))
	require.NoError(t, err)
	t.Logf("%d bytes", len(text))
	require.Less(t, len(text), 256<<10)
}

// TestNewVersion changes the plugin's source, which must change the Deployment.
func TestNewVersion(t *testing.T) {
	copied := t.TempDir()
	for _, name := range append(pluginFiles(t), "kustomization.yaml") {
		require.NoError(t, copyFile(filepath.Join(repository(), name), filepath.Join(copied, name)))
	}
	examples := filepath.Join("examples", "kubernetes")
	require.NoError(t, os.CopyFS(filepath.Join(copied, examples), os.DirFS(filepath.Join(repository(), examples))))

	before := nameOf(plugin(t, copied))
	require.Equal(t, before, traefikPod(t, copied).Volumes[0].ConfigMap.Name)

	require.NoError(t, os.WriteFile(filepath.Join(copied, "plugin.go"), []byte("package sluice\n"), 0o644))
	after := nameOf(plugin(t, copied))
	require.NotEqual(t, before, after)
	require.Equal(t, after, traefikPod(t, copied).Volumes[0].ConfigMap.Name)
}

// TestPinnedTraefik holds the examples to the version of Traefik that is tested here.
func TestPinnedTraefik(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(repository(), "tools", "traefik", "go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`github.com/traefik/traefik/v3 (v\S+)`).FindSubmatch(module)[1]
	for _, file := range []string{"kubernetes/traefik.yaml", "docker/compose.yaml", "helm/values.yaml"} {
		text, err := os.ReadFile(filepath.Join(repository(), "examples", filepath.FromSlash(file)))
		require.NoError(t, err)
		require.Regexp(t, `(image: traefik:|tag: )`+string(version)+"\n", string(text), file)
	}
}

// TestClientSideApply applies everything once more as the README says, without --server-side.
func TestClientSideApply(t *testing.T) {
	kubectl(t, "apply", "-k", repository())
}

// pluginFiles is the names of the files that make the plugin.
func pluginFiles(t *testing.T) []string {
	entries, err := os.ReadDir(repository())
	require.NoError(t, err)
	files := []string{".traefik.yml"}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			files = append(files, name)
		}
	}
	return files
}

// object is a Kubernetes object as YAML has it.
type object = map[string]any

// built is the first object of a kind, with a name that begins so, in what kustomize makes of a folder.
func built(t *testing.T, folder, kind, name string) object {
	text, err := exec.Command(filepath.Join(os.Getenv("KUBERNETES"), "kubectl"), "kustomize", folder).Output()
	require.NoError(t, err)
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var next object
		require.NoError(t, decoder.Decode(&next), "no %s %s", kind, name)
		if next["kind"] == kind && strings.HasPrefix(nameOf(next), name) {
			return next
		}
	}
}

// plugin is the ConfigMap with the plugin.
func plugin(t *testing.T, folder string) object { return built(t, folder, "ConfigMap", "sluice-") }

func nameOf(o object) string { return o["metadata"].(object)["name"].(string) }

// traefikPod is what Traefik's Deployment says of its pod.
func traefikPod(t *testing.T, folder string) podSpec {
	text, err := json.Marshal(built(t, folder, "Deployment", "traefik"))
	require.NoError(t, err)
	var deployment struct {
		Spec struct{ Template struct{ Spec podSpec } }
	}
	require.NoError(t, json.Unmarshal(text, &deployment))
	return deployment.Spec.Template.Spec
}
