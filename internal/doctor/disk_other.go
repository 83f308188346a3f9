//go:build !linux && !darwin

package doctor

func writable(string) error { return nil }
