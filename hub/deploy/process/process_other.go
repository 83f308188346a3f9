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

func killOrphans(int, string, folder) {}

func (f folder) killLeft() {}

func openRegular(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

func openLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func flock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func birth(int) string { return "" }
