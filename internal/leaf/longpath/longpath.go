// Package longpath bounds the paths that models and clients send. It needs only the standard
// library.
package longpath

import "errors"

// The longest path.
const (
	MaxBytes = 4096
	MaxNames = 256
)

// ErrTooLong is the error of a path that is longer.
var ErrTooLong = errors.New("the path has more than 4,096 bytes or 256 names")

// Check returns [ErrTooLong] if the path is longer than a path may be. Names are what is between
// slashes.
func Check(path string) error {
	if len(path) > MaxBytes {
		return ErrTooLong
	}

	names := 0
	for i := range len(path) {
		if path[i] != '/' && (i == 0 || path[i-1] == '/') {
			names++
		}
	}

	if names > MaxNames {
		return ErrTooLong
	}

	return nil
}
