//go:build !unix

package child

import "syscall"

func attributes(given *syscall.SysProcAttr) *syscall.SysProcAttr { return given }

func (p *Process) terminate() { p.kill() }

func (p *Process) kill() { _ = p.cmd.Process.Kill() } // fails only if the child has ended

func (p *Process) wait() error {
	waited := p.cmd.Wait()
	p.end(true)
	return waited
}

// SignalName returns "": this system has no signals.
func SignalName(error) string { return "" }
