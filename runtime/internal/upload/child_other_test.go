//go:build !linux

package upload_test

import "errors"

func runChild(string, string) error { return errors.ErrUnsupported }
