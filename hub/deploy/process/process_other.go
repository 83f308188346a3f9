//go:build !unix

package process

import (
	"errors"
	"os"
	"syscall"
)

func supported() error { return errors.ErrUnsupported }

func ownSession() *syscall.SysProcAttr { return nil }

func signalProcess(int, bool) {}

func killOrphans(int, string) {}

func flock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func birth(int) string { return "" }
