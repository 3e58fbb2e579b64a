package kubernetes

import (
	"encoding/json"
	"errors"
	"io"
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
	container := site.traefik.spec.Spec.Containers[0]
	require.Equal(t, container.VolumeMounts[0].MountPath, sluice.MountPath)
	require.Contains(t, container.Args, "--experimental.localPlugins.sluice.moduleName="+sluice.ModuleName)

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

// TestClientSideApply applies everything once more as the README says, without --server-side.
func TestClientSideApply(t *testing.T) {
	kubectl(t, "apply", "-k", repository())
}

// TestNewVersion changes the plugin's source, which must change the Deployment.
func TestNewVersion(t *testing.T) {
	copied := t.TempDir()
	for _, name := range append(pluginFiles(t), "kustomization.yaml") {
		require.NoError(t, copyFile(filepath.Join(repository(), name), filepath.Join(copied, name)))
	}
	examples := filepath.Join("examples", "kubernetes")
	require.NoError(t, os.CopyFS(filepath.Join(copied, examples), os.DirFS(filepath.Join(repository(), examples))))

	before, volume := name(plugin(t, copied)), mounted(t, copied)
	require.Equal(t, before, volume, "what the Deployment mounts")
	require.Regexp(t, `^sluice-[a-z0-9]{10}$`, before)

	require.NoError(t, os.WriteFile(filepath.Join(copied, "plugin.go"), []byte("package sluice\n"), 0o644))
	after := name(plugin(t, copied))
	require.NotEqual(t, before, after)
	require.Equal(t, after, mounted(t, copied))
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

// built is what `kubectl kustomize` makes of a folder.
func built(t *testing.T, folder string) (objects []object) {
	text, err := exec.Command(filepath.Join(os.Getenv("KUBERNETES"), "kubectl"), "kustomize", folder).Output()
	require.NoError(t, err)
	for decoder := yaml.NewDecoder(strings.NewReader(string(text))); ; {
		var next object
		err := decoder.Decode(&next)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		objects = append(objects, next)
	}
}

// plugin is the ConfigMap with the plugin.
func plugin(t *testing.T, folder string) object {
	for _, candidate := range built(t, folder) {
		if candidate["kind"] == "ConfigMap" {
			return candidate
		}
	}
	require.Fail(t, "no ConfigMap")
	return nil
}

func name(o object) string { return o["metadata"].(object)["name"].(string) }

// mounted is the name of the ConfigMap that Traefik's Deployment mounts.
func mounted(t *testing.T, folder string) string {
	for _, candidate := range built(t, folder) {
		if candidate["kind"] == "Deployment" && name(candidate) == "traefik" {
			spec := candidate["spec"].(object)["template"].(object)["spec"].(object)
			return spec["volumes"].([]any)[0].(object)["configMap"].(object)["name"].(string)
		}
	}
	require.Fail(t, "no Deployment")
	return ""
}
