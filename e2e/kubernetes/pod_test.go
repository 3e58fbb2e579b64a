package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pod is a running container of a Deployment's pod, in a root file system of its own.
type pod struct {
	*process
	spec podObject
}

// podObject is as much of a Pod as is acted upon here.
type podObject struct {
	Metadata struct{ Name, Namespace string }
	Spec     podSpec
}

type podSpec struct {
	ServiceAccountName string
	SecurityContext    struct{ RunAsUser, RunAsGroup uint32 }
	InitContainers     []any
	Containers         []container
	Volumes            []volume
}

type container struct {
	Image, WorkingDir string
	Command, Env      []any
	Args              []string
	Ports             []struct {
		Name          string
		ContainerPort int
	}
	StartupProbe    struct{ HTTPGet struct{ Path, Port string } }
	SecurityContext struct{ ReadOnlyRootFilesystem bool }
	VolumeMounts    []struct {
		Name, MountPath string
		SubPath         string
	}
}

// startPod creates the Pod that a Deployment stands for, as its controllers would, and runs its container as a kubelet
// would, with a binary in the place of the image. It returns when the startup probe succeeds.
func startPod(c *cluster, namespace, deployment, binary string) (*pod, error) {
	object, err := createPod(c, namespace, deployment)
	if err != nil {
		return nil, err
	}
	run := object.Spec.Containers[0]
	if len(object.Spec.Containers)+len(object.Spec.InitContainers) > 1 || len(run.Command)+len(run.Env) > 0 {
		return nil, errors.New("a pod of several containers, or with a command or an environment, is more than this test can run")
	}
	root := c.path(object.Metadata.Name)
	if err := fillRoot(c, root, binary, object); err != nil {
		return nil, err
	}
	command := exec.Command("/"+filepath.Base(binary), run.Args...)
	command.Dir = run.WorkingDir
	command.Env = []string{"KUBERNETES_SERVICE_HOST=" + apiServer, "KUBERNETES_SERVICE_PORT=443"}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if user := object.Spec.SecurityContext; manyUsers() {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: user.RunAsUser, Gid: user.RunAsGroup}
	}
	process, err := start(command, root+".log")
	if err != nil {
		return nil, err
	}
	p := &pod{process: process, spec: object}
	return p, p.until(time.Minute, p.probe)
}

// createPod has the API server admit a Deployment's pod, which checks it against the namespace's security standard and
// adds the volume with the service account's token.
func createPod(c *cluster, namespace, deployment string) (object podObject, err error) {
	text, err := c.kubectl("", "get", "deployment", deployment, "-n", namespace, "-o", "json")
	if err != nil {
		return object, err
	}
	var described struct {
		Spec struct {
			Template struct {
				Metadata map[string]any `json:"metadata"`
				Spec     map[string]any `json:"spec"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &described); err != nil {
		return object, err
	}
	template := described.Spec.Template
	template.Metadata["name"] = deployment + "-pod"
	template.Metadata["namespace"] = namespace
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": template.Metadata, "spec": template.Spec,
	})
	if err != nil {
		return object, err
	}
	if text, err = c.kubectl(string(manifest), "create", "-f", "-", "-o", "json"); err != nil {
		return object, err
	}
	return object, json.Unmarshal([]byte(text), &object)
}

// fillRoot makes the root file system that a pod's container sees: the image's one file, and the volumes.
func fillRoot(c *cluster, root, binary string, object podObject) error {
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount the pod's root: %w", err)
	}
	if err := copyFile(binary, filepath.Join(root, filepath.Base(binary))); err != nil {
		return err
	}
	run := object.Spec.Containers[0]
	for _, mount := range run.VolumeMounts {
		if mount.SubPath != "" {
			return errors.New("subPath is more than this test can mount")
		}
		at := slices.IndexFunc(object.Spec.Volumes, func(v volume) bool { return v.Name == mount.Name })
		if err := object.Spec.Volumes[at].mount(c, object, filepath.Join(root, mount.MountPath)); err != nil {
			return fmt.Errorf("volume %s: %w", mount.Name, err)
		}
	}
	if !run.SecurityContext.ReadOnlyRootFilesystem {
		return nil
	}
	return unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// probe asks as the startup probe does.
func (p *pod) probe() error {
	ask := p.spec.Spec.Containers[0].StartupProbe.HTTPGet
	response, err := http.Get("http://" + p.address(ask.Port) + ask.Path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// address is where the container listens on the port of that name.
func (p *pod) address(port string) string {
	for _, known := range p.spec.Spec.Containers[0].Ports {
		if known.Name == port {
			return net.JoinHostPort(traefikAddress, strconv.Itoa(known.ContainerPort))
		}
	}
	panic("the container has no port " + port)
}

// stop may be called on nil.
func (p *pod) stop() {
	if p != nil {
		p.process.stop()
	}
}

// manyUsers says whether there are users apart from this one to run as. In the namespaces of one who is not root there are not,
// and then the container runs as that one.
func manyUsers() bool {
	text, _ := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(text))
	return len(fields) == 3 && fields[2] != "1"
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	return target.Close()
}
