package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/klog/v2"
)

// scratch is a file system in memory that only the test program has.
const scratch = "/tmp/agenthost-kubernetes"

// groups has the cgroups of the containers of this run.
const groups = "/sys/fs/cgroup/memory/agenthost-kubernetes"

const (
	envInside    = "AGENTHOST_CLUSTER"
	envContainer = "AGENTHOST_CONTAINER" // the path of a sandbox
)

// Main runs the tests of a package in namespaces in which [Start] can be called. It does not
// return.
func Main(m *testing.M) {
	code, err := 1, error(nil)
	switch {
	case os.Getenv(envContainer) != "":
		err = enterContainer(os.Getenv(envContainer))
	case os.Getenv(envInside) != "":
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard) // watches that end with the API server
		if err = prepare(); err == nil {
			code = m.Run()
			stopShared()
		}
	case os.Geteuid() != 0:
		err = errors.New("the tests of a cluster need root")
	default:
		code, err = enter()
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
	}

	os.Exit(code)
}

// enter runs this program in new namespaces. Its processes and mounts end with it.
func enter() (code int, err error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return 1, err
	}

	id := fmt.Sprint(os.Getpid())
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), envInside+"="+id)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	err = cmd.Run()
	removeGroups(filepath.Join(groups, id))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}

	if err != nil {
		return 1, err
	}

	return 0, nil
}

// prepare mounts the directories, and configures the network, which has no way out.
func prepare() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", scratch, "tmpfs", 0},
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}

	return ip("link set lo up",
		"link add "+bridge+" type bridge",
		"addr add "+gateway+"/16 dev "+bridge,
		"link set "+bridge+" up")
}

// The networks of the cluster. Pods have addresses of 10.244.0.0/16, services of 10.96.0.0/16, and
// nodes of 10.245.0.0/16.
const (
	bridge   = "pods0"
	gateway  = "10.244.0.1" // is the address of this process for pods, and that of the API server
	services = "10.96.0.0/16"
)

// ip executes commands of the program ip.
func ip(commands ...string) error { return ipIn("", commands...) }

// ipIn executes commands of the program ip in a network namespace.
func ipIn(netns string, commands ...string) error {
	args := []string{"-batch", "-"}
	if netns != "" {
		args = append([]string{"-netns", netns}, args...)
	}

	cmd := exec.CommandContext(context.Background(), "ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, out)
	}

	return nil
}

// removeGroups removes cgroups whose processes have ended.
func removeGroups(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeGroups(filepath.Join(dir, e.Name()))
		}
	}

	_ = os.Remove(dir)
}
