//go:build !linux && !darwin

package diskspace

import "errors"

// Free returns [errors.ErrUnsupported].
func Free(string) (Space, error) { return Space{}, errors.ErrUnsupported }
