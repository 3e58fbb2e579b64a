package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// prepare gets what the tests need from outside their network, builds it if need be, and leaves the paths in the environment.
func prepare() error {
	traefik, err := gateway.Binary(context.Background(), os.Stderr)
	if err != nil {
		return err
	}
	script := exec.Command("sh", filepath.Join(repository(), "tools", "kubernetes", "binaries.sh"))
	script.Stderr = os.Stderr
	binaries, err := script.Output()
	if err != nil {
		return fmt.Errorf("no Kubernetes: tools/kubernetes/binaries.sh: %w", err)
	}
	modules, err := downloadModules("github.com/traefik/traefik/v3", "sigs.k8s.io/gateway-api")
	if err != nil {
		return err
	}
	os.Setenv("TRAEFIK", traefik)
	os.Setenv("KUBERNETES", strings.TrimSpace(string(binaries)))
	os.Setenv("TRAEFIK_MODULE", modules[0])
	os.Setenv("GATEWAY_MODULE", modules[1])
	return nil
}

// downloadModules returns the folders of modules, in the versions that tools/traefik pins.
func downloadModules(paths ...string) ([]string, error) {
	download := exec.Command("go", append([]string{"mod", "download", "-json"}, paths...)...)
	download.Dir = filepath.Join(repository(), "tools", "traefik")
	download.Env = append(os.Environ(), "GOWORK=off")
	download.Stderr = os.Stderr
	text, err := download.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download %s: %w\n%s", strings.Join(paths, " "), err, text)
	}
	var folders []string
	for decoder := json.NewDecoder(bytes.NewReader(text)); decoder.More(); {
		var module struct{ Dir string }
		if err := decoder.Decode(&module); err != nil {
			return nil, err
		}
		folders = append(folders, module.Dir)
	}
	return folders, nil
}

// traefikResources is the file with the definitions of Traefik's custom resources.
func traefikResources() string {
	return filepath.Join(os.Getenv("TRAEFIK_MODULE"), "docs", "content", "reference", "dynamic-configuration", "kubernetes-crd-definition-v1.yml")
}

// gatewayResources is the folder with those of the Gateway API.
func gatewayResources() string {
	return filepath.Join(os.Getenv("GATEWAY_MODULE"), "config", "crd")
}

func repository() string {
	root, err := gateway.Root()
	if err != nil {
		panic(err)
	}
	return root
}
