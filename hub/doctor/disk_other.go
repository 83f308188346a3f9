//go:build !linux && !darwin

package doctor

import "errors"

func freeSpace(string) (space, error) { return space{}, errors.ErrUnsupported }

func writable(string) error { return nil }
