package kubernetes

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// volume is one of a pod's, of the kinds that occur here.
type volume struct {
	Name      string
	ConfigMap *configMapSource
	Projected *struct {
		Sources []struct {
			ConfigMap           *configMapSource
			ServiceAccountToken *struct{ Path string }
			DownwardAPI         *struct {
				Items []struct {
					Path     string
					FieldRef struct{ FieldPath string }
				}
			}
		}
	}
}

type configMapSource struct {
	Name  string
	Items []struct{ Key, Path string }
}

// mount fills a folder with what the volume holds.
func (v volume) mount(c *cluster, object podObject, folder string) error {
	namespace := object.Metadata.Namespace
	switch {
	case v.ConfigMap != nil:
		files, err := v.ConfigMap.files(c, namespace)
		if err != nil {
			return err
		}
		return layOut(folder, files)
	case v.Projected != nil:
		files := map[string]string{}
		for _, source := range v.Projected.Sources {
			switch {
			case source.ConfigMap != nil:
				some, err := source.ConfigMap.files(c, namespace)
				if err != nil {
					return err
				}
				maps.Copy(files, some)
			case source.ServiceAccountToken != nil:
				token, err := c.kubectl("", "create", "token", object.Spec.ServiceAccountName, "-n", namespace)
				if err != nil {
					return err
				}
				files[source.ServiceAccountToken.Path] = strings.TrimSpace(token)
			case source.DownwardAPI != nil && source.DownwardAPI.Items[0].FieldRef.FieldPath == "metadata.namespace":
				files[source.DownwardAPI.Items[0].Path] = namespace
			}
		}
		return layOut(folder, files)
	}
	return errors.New("of a kind that this test does not know")
}

func (s configMapSource) files(c *cluster, namespace string) (map[string]string, error) {
	text, err := c.kubectl("", "get", "configmap", s.Name, "-n", namespace, "-o", "json")
	if err != nil {
		return nil, err
	}
	var object struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(text), &object); err != nil || len(s.Items) == 0 {
		return object.Data, err
	}
	files := map[string]string{}
	for _, item := range s.Items {
		files[item.Path] = object.Data[item.Key]
	}
	return files, nil
}

// layOut writes a volume's files as a kubelet does: each of them is a link into ..data, which is a link to a folder that is named for the
// time, so that all of them change at once.
func layOut(folder string, files map[string]string) error {
	generation := "..2026_01_02_03_04_05.0123456789"
	if err := os.MkdirAll(filepath.Join(folder, generation), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(generation, filepath.Join(folder, "..data")); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, generation, name), []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}
