//go:build !linux

package process

// killLeft does nothing: this system does not show the environment of a process.
func (f folder) killLeft() {}
