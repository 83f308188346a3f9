//go:build docker

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// machine is an address of the machine of the engine that containers reach.
const machine = "10.99.0.1"

const (
	inside   = "AGENTHOST_ENGINE"
	patience = time.Minute
	scratch  = "/tmp/agenthost-docker"
)

// socket is the address of the engine.
const socket = "unix://" + scratch + "/engine.sock"

// runtimeImage has the runtime as its entry point, and bash.
const runtimeImage = "agenthost-runtime:test"

// TestMain runs the tests of a package in namespaces with a running engine.
func TestMain(m *testing.M) {
	code, err := 1, errors.New("the tests of the docker deployer need root")
	switch {
	case os.Getenv(inside) != "":
		code, err = serve(m)
	case os.Geteuid() == 0:
		code, err = enter()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// enter runs this program in new namespaces. Its processes and mounts end with it.
func enter() (code int, err error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

func serve(m *testing.M) (code int, err error) {
	if err := prepare(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stopEngine()) }()
	if err := writeCertificates(); err != nil {
		return 0, err
	}
	if err := startEngine(); err != nil {
		return 0, err
	}
	if err := importImage(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// prepare mounts the directories of the engine, and configures the network.
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
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", machine + "/32", "dev", "lo"}} {
		if out, err := exec.CommandContext(context.Background(), "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// daemon is the process of the engine.
var daemon struct {
	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
}

// startEngine starts the engine, and waits until it responds.
func startEngine() error {
	daemon.mu.Lock()
	defer daemon.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(scratch, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.Background(), "dockerd",
		"--data-root", scratch+"/data", "--exec-root", scratch+"/exec", "--pidfile", scratch+"/pid", "--host", socket, "--bridge", "none",
		"--host", tlsHost, "--tlsverify", "--tlscacert", certDir+"/ca.pem", "--tlscert", certDir+"/server.pem", "--tlskey", certDir+"/server-key.pem")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	daemon.cmd = cmd
	c, err := newClient()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if _, err = c.Ping(ctx, client.PingOptions{}); err == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the engine does not respond: %w\n%s", err, text[max(len(text)-4000, 0):])
		}
	}
}

// stopEngine ends the engine with its containers.
func stopEngine() error { return endEngine(syscall.SIGTERM) }

// endEngine ends the engine with a signal, and waits for it.
func endEngine(signal syscall.Signal) error {
	daemon.mu.Lock()
	defer daemon.mu.Unlock()
	if daemon.cmd == nil {
		return nil
	}
	if err := daemon.cmd.Process.Signal(signal); err != nil {
		return err
	}
	err := daemon.cmd.Wait()
	daemon.cmd = nil
	// The containerd of an engine that is killed ends with it. This process has not waited for it, so
	// that the next engine would take its id for that of a running one.
	if err := os.RemoveAll(scratch + "/exec/containerd/containerd.pid"); err != nil {
		return err
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return nil
	}
	return err
}

// newClient returns a client of the engine.
func newClient() (*client.Client, error) { return client.New(client.WithHost(socket)) }
