package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
)

// A child process has a small file system of its own.
func TestPingOnAFullDisk(t *testing.T) {
	t.Parallel()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "AGENTHOST_TEST_FULL="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	output, err := child.CombinedOutput()
	require.NoError(t, err, string(output))
}

// fillInChild is the child process of TestPingOnAFullDisk.
func fillInChild(dir string) {
	if err := pingWhileFull(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func pingWhileFull(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{URL: "sqlite://" + filepath.Join(dir, "hub.db")})
	if err != nil {
		return err
	}
	if err := d.Ping(ctx); err != nil {
		return fmt.Errorf("with room: %w", err)
	}
	filling := filepath.Join(dir, "filling")
	if err := os.WriteFile(filling, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %w", err)
	}
	if err := d.Ping(ctx); !errors.Is(err, db.ErrUnavailable) {
		return fmt.Errorf("on a full disk: %w", err)
	}
	if err := os.Remove(filling); err != nil {
		return err
	}
	if err := d.Ping(ctx); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	return d.Close()
}
