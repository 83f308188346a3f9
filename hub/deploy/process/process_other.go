//go:build !unix

package process

import (
	"errors"
	"os"
	"syscall"
)

func supported() error { return errors.ErrUnsupported }

func ownSession(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }

func signalProcess(int, bool) {}

func openRegular(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

func openLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func birth(int) string { return "" }
