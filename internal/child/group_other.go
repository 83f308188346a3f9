//go:build !unix

package child

import "syscall"

func attributes(given *syscall.SysProcAttr) *syscall.SysProcAttr { return given }

func (p *Process) terminate() { p.kill() }

func (p *Process) kill() { _ = p.cmd.Process.Kill() } // fails when it has ended already, which is as well

func (p *Process) wait() error {
	waited := p.cmd.Wait()
	p.end(true)
	return waited
}

// SignalName is the name of the signal that ended the child of which err was answered: there are none here.
func SignalName(error) string { return "" }
