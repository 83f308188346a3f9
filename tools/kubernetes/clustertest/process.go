package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// EnvPrograms is the variable with the directory of the programs, which `make test-kubernetes`
// builds.
const EnvPrograms = "KUBERNETES_PROGRAMS"

// process is a program of the control plane.
type process struct {
	cmd *exec.Cmd
	log string
}

// startProcess starts a program, which is one of EnvPrograms or of PATH.
func startProcess(name string, args ...string) (*process, error) {
	path := filepath.Join(os.Getenv(EnvPrograms), name)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("%w: run make test-kubernetes, which builds what is missing", err)
		}
	}

	p := &process{cmd: exec.CommandContext(context.Background(), path, args...), log: filepath.Join(scratch, name+".log")}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}

	defer func() { _ = log.Close() }()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "HOME=" + scratch}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}

	return p, nil
}

// stop ends the process with a signal, and waits for it.
func (p *process) stop(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}

	err := p.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return nil
	}

	return err
}

// tail returns the end of the log.
func (p *process) tail() []byte {
	const most = 4000 // bytes
	text, _ := os.ReadFile(p.log)
	return text[max(len(text)-most, 0):]
}
