package usertest

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Nobody is the number of that user, and of his group.
const Nobody = 65534

// AsNobody runs f on a thread that has the rights of [Nobody] on files where root runs the test, and otherwise those of
// whoever does. Other threads keep theirs: f has to do its work by itself. The thread ends with f.
func AsNobody(t testing.TB, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: a thread that is still locked when its goroutine ends is not used again
		var err error
		defer func() { done <- err }()
		if os.Geteuid() == 0 {
			if err = syscall.Setfsgid(Nobody); err == nil {
				err = syscall.Setfsuid(Nobody)
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

// Enterable lets everyone into dir, which is below os.TempDir, and into all between the two: the testing package makes its
// directories for their owner alone.
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
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // that is what it is for
			t.Fatal(err)
		}
	}
}
