package upload_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/upload"
)

const large = 8 << 20

func runChild(job, dir string) error {
	if job == "full" {
		return fillDisk(dir)
	}
	s, err := upload.New(upload.Config{Dir: dir, MaxBytes: 1 << 40})
	if err != nil {
		return err
	}
	data := make([]byte, large)
	for n := byte(1); ; n++ {
		data[0] = n
		up, err := s.Put(upload.File{}, data)
		if err != nil {
			return err
		}
		fmt.Println(up.ID)
	}
}

// A process that is killed while it stores a file leaves the complete ones, and a rest that a sweep
// removes.
func TestAKillDuringAnUpload(t *testing.T) {
	dir := t.TempDir()
	for torn := 0; torn < 2; {
		p := exec.Command("/proc/self/exe")
		p.Env = append(os.Environ(), "UPLOAD_TEST_DIR="+dir, "UPLOAD_TEST_CHILD=store")
		out, err := p.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, p.Start())
		lines := bufio.NewReader(out)
		first, err := lines.ReadString('\n')
		require.NoError(t, err)
		for parts := 0; parts == 0; { // until it writes the next one
			found, err := filepath.Glob(filepath.Join(dir, "*.part"))
			require.NoError(t, err)
			parts = len(found) - torn
		}
		require.NoError(t, p.Process.Kill())
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		_ = p.Wait() // it was killed
		s := open(t, dir, 1<<40)
		for id := range strings.FieldsSeq(first + string(rest)) {
			_, data, err := s.Open(id, free)
			require.NoError(t, err)
			require.Len(t, data, large)
		}
		for _, name := range names(t, dir) {
			if !strings.HasSuffix(name, ".part") {
				_, data, err := s.Open(name, free)
				require.NoError(t, err, "a file with an id is complete")
				require.Len(t, data, large)
			}
		}
		parts, err := filepath.Glob(filepath.Join(dir, "*.part"))
		require.NoError(t, err)
		torn = len(parts)
		require.NoError(t, s.Close())
	}
	for _, name := range names(t, dir) {
		setAge(t, filepath.Join(dir, name), 2*time.Hour)
	}
	open(t, dir, 1<<40)
	require.Eventually(t, func() bool {
		parts, err := filepath.Glob(filepath.Join(dir, "*.part"))
		return err == nil && len(parts) == 0
	}, time.Minute, time.Millisecond)
}

// A child process has a small file system of its own.
func TestUploadsOnAFullDisk(t *testing.T) {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "UPLOAD_TEST_DIR="+t.TempDir(), "UPLOAD_TEST_CHILD=full")
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	output, err := child.CombinedOutput()
	require.NoError(t, err, string(output))
}

func fillDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	s, err := upload.New(upload.Config{Dir: dir, MaxBytes: 1 << 40})
	if err != nil {
		return err
	}
	small := bytes.Repeat([]byte("x"), 1<<20)
	up, err := s.Put(upload.File{}, small)
	if err != nil {
		return err
	}
	if _, err := s.Put(upload.File{}, make([]byte, large)); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		return fmt.Errorf("%d files are left: %w", len(entries), err)
	}
	if _, data, err := s.Open(up.ID, free); err != nil || !bytes.Equal(data, small) {
		return fmt.Errorf("read the first one: %w", err)
	}
	if _, err := s.Put(upload.File{}, make([]byte, 1<<20)); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	return s.Close()
}
