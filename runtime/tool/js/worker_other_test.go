//go:build !linux

package js_test

import "errors"

func workWithoutSeccomp([]string) error { return errors.ErrUnsupported }
