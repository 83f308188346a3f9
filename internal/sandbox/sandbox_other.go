//go:build !linux

package sandbox

import (
	"cmp"
	"errors"
	"os/exec"
)

// Enforcer starts commands under one policy. On this system, it confines nothing.
type Enforcer struct{}

// New returns a sandbox.
func New(p Policy) (*Enforcer, error) {
	p.Network = cmp.Or(p.Network, NetworkProxy)
	return &Enforcer{}, p.check()
}

// Support returns what the kernel enforces for the commands.
func (s *Enforcer) Support() Support {
	return Support{Reason: "commands are confined on Linux only"}
}

// Close ends the proxy. It does not end commands.
func (s *Enforcer) Close() {}

// Command is a confined command that is being started.
type Command struct{}

// Denied returns no connections.
func (c *Command) Denied() []string { return nil }

// Confine does not change cmd.
func (s *Enforcer) Confine(*exec.Cmd) (*Command, error) { return &Command{}, nil }

// Started releases what only the start of the command needs.
func (c *Command) Started() {}

// ConfineWorker returns errors.ErrUnsupported.
func ConfineWorker() error { return errors.ErrUnsupported }
