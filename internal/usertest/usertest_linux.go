package usertest

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Unprivileged is the id of the unprivileged user and group.
const Unprivileged = 65534

// AsUnprivileged runs f on a thread with the file permissions of [Unprivileged] if root runs the
// test, and of the current user otherwise. Other threads are not changed, so f must not start
// goroutines. The thread ends with f.
func AsUnprivileged(t testing.TB, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // a thread that is still locked when its goroutine ends is not used again
		var err error
		defer func() { done <- err }()
		if os.Geteuid() == 0 {
			if err = syscall.Setfsgid(Unprivileged); err == nil {
				err = syscall.Setfsuid(Unprivileged)
			}
		}

		if err == nil {
			f()
		}
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Enterable makes dir, which is below os.TempDir, and its parents accessible for all users: the
// testing package creates its directories only for their owner.
func Enterable(t testing.TB, dir string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}

	if below, err := filepath.Rel(top, dir); err != nil || !filepath.IsLocal(below) {
		t.Fatalf("%s is not below %s", dir, top)
	}

	for ; dir != top; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // this is the purpose
			t.Fatal(err)
		}
	}
}
