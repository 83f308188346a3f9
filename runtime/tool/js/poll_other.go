//go:build !unix

package js

import "io"

func pollable(r io.Reader) (io.Reader, error) { return r, nil }
