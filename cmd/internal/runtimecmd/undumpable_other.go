//go:build !linux

package runtimecmd

// Undumpable has an effect only on Linux.
func Undumpable() error { return nil }
