package chaos_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
)

// disk is a file system whose files are those of another directory, and which can be slow, or fail
// every change.
type disk struct {
	dir   string
	delay atomic.Int64  // of each write and sync, in nanoseconds
	fault atomic.Uint32 // errno of each change; 0: none
	syncs atomic.Int64
}

// startDisk mounts a disk until the test ends.
func startDisk(t *testing.T) *disk {
	d := &disk{dir: t.TempDir()}
	files := t.TempDir()
	root := &fs.LoopbackRoot{Path: files}
	root.NewNode = func(data *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &diskNode{LoopbackNode: fs.LoopbackNode{RootData: data}, disk: d}
	}
	var info syscall.Stat_t
	require.NoError(t, syscall.Stat(files, &info))
	root.Dev = info.Dev
	node := root.NewNode(root, nil, "", nil)
	root.RootNode = node
	server, err := fs.Mount(d.dir, node, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true, FsName: "chaos", Name: "chaos"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(d.dir, syscall.MNT_DETACH)); server.Wait() })
	return d
}

// change waits as long as the disk needs for a change, and returns its error.
func (d *disk) change() syscall.Errno {
	<-time.After(time.Duration(d.delay.Load()))
	return syscall.Errno(d.fault.Load())
}

// diskNode is a file or a directory of a disk.
type diskNode struct {
	fs.LoopbackNode
	disk *disk
}

func (n *diskNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&(syscall.O_WRONLY|syscall.O_RDWR) != 0 && n.disk.fault.Load() == uint32(syscall.EROFS) {
		return nil, 0, syscall.EROFS
	}
	f, use, errno := n.LoopbackNode.Open(ctx, flags)
	return n.wrap(f), use, errno
}

func (n *diskNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.disk.change(); errno != 0 {
		return nil, nil, 0, errno
	}
	inode, f, use, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.wrap(f), use, errno
}

func (n *diskNode) wrap(f fs.FileHandle) fs.FileHandle {
	if f, ok := f.(*fs.LoopbackFile); ok {
		return &diskFile{f, n.disk}
	}
	return f
}

func (n *diskNode) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.disk.change(); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

func (n *diskNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.disk.change(); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

func (n *diskNode) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if errno := n.disk.change(); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Rename(ctx, name, parent, newName, flags)
}

// diskFile is an open file of a disk.
type diskFile struct {
	*fs.LoopbackFile
	disk *disk
}

// PassthroughFd prevents that the kernel reads and writes the file of the other directory itself.
func (f *diskFile) PassthroughFd() (int, bool) { return 0, false }

func (f *diskFile) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	if errno := f.disk.change(); errno != 0 {
		return 0, errno
	}
	return f.LoopbackFile.Write(ctx, data, off)
}

func (f *diskFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	f.disk.syncs.Add(1)
	if errno := f.disk.change(); errno != 0 {
		return errno
	}
	return f.LoopbackFile.Fsync(ctx, flags)
}

func (f *diskFile) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	if errno := f.disk.change(); errno != 0 {
		return errno
	}
	return f.LoopbackFile.Allocate(ctx, off, size, mode)
}

// While the disk of a hub with SQLite takes no changes, or fails them, nothing is acknowledged
// that is lost, and no response is an internal error. Afterwards, the hub works without a restart.
// A disk that needs 50 ms for each change makes it slow, and nothing else.
func TestFaultyDisk(t *testing.T) {
	d := startDisk(t)
	in := newInstallationIn(t, d.dir, 1, false)
	c := in.setUp(t)
	for _, row := range []struct {
		name  string
		fault syscall.Errno
		delay time.Duration
	}{{"read-only", syscall.EROFS, 0}, {"input/output error", syscall.EIO, 0}, {"slow", 0, 50 * time.Millisecond}} {
		phase(t, c, 2*time.Second)
		syncs := d.syncs.Load()
		d.delay.Store(int64(row.delay))
		d.fault.Store(uint32(row.fault))
		phase(t, c, 6*time.Second)
		d.fault.Store(0)
		d.delay.Store(0)
		begin := time.Now()
		var took time.Duration
		require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) (err error) {
			took, err = in.probe(ctx, c)
			return err
		}), in.logs())
		fmt.Printf("%s for 6 s: %d syncs, out of service for %v after it\n", row.name, d.syncs.Load()-syncs, (time.Since(begin) - took).Round(time.Millisecond))
	}
	k := &checker{in: in, c: c}
	findings := k.check(t.Context())
	report(c.journal, nil)
	require.Empty(t, findings, in.logs())
	in.remove(t, k)
	_, err := os.Stat(d.dir)
	require.NoError(t, err)
}
