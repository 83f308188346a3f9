package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
)

// FilesConfig configures a [Files] store. Dir and CWD are required.
type FilesConfig struct {
	// Dir is the state directory. It is created if it is missing. The store uses the directory
	// "sessions" below it.
	Dir string

	// CWD is the working directory of the agents. Each working directory has its own sessions.
	// Different paths and links to one directory are equivalent.
	CWD string

	// TTL is the time for which a session is stored after its last message. Defaults to 720 h.
	TTL time.Duration

	// Logger receives warnings about repaired transcripts and expired ones that cannot be
	// removed. Defaults to none.
	Logger *slog.Logger
}

// Files is a Store with one JSON Lines file for each session. Several processes may use the same
// directory:
//
//	<Dir>/sessions/<hash of CWD>/<agent id>/<shard>/<session id>.jsonl
//
// The shard is one of 256, by the time of the first run, so that no folder has all sessions of an
// agent. Former versions had no shards: a session in the folder of the agent is moved when a run
// continues it. They do not know the sessions of this version.
//
// The first line is a header with the version of the format. Every other line is a [model.Message]
// with its time, an event, or the messages that a compaction left. Append and Record write a line
// with one system call, so that it survives a crash of the process. Close syncs the file, so that
// the session also survives a crash of the machine. Sessions that are closed together are synced
// in parallel, and their folders together. An empty session has no file. The file of an open
// session is locked.
//
// Compact appends a line, so that the replaced messages remain in the transcript. If the file is
// longer than 16 MiB, Compact writes a new file without them, syncs it and renames it over the old
// one. A crash in between leaves a file <session id>.new, which the next such file of the session
// replaces, or which a sweep removes after TTL.
//
// A crash during an append can leave an incomplete last line, which the next append removes. Open
// returns [errDamaged] for any other line that cannot be read, and [errNewer] for the format of a
// later version of this package. It does not modify such a file, which an operator can repair.
//
// Files older than TTL are removed in the background, in small steps, unless they are in use. All
// files are examined at the start and then once an hour. Files of other working directories are
// ignored.
//
// The lock is flock(2) on Linux, macOS, the BSDs and illumos, and LockFileEx on Windows. The system
// releases it when the process ends. On other systems only one Files may use a directory.
type Files struct {
	cfg  FilesConfig
	root *os.Root // cfg.Dir; no name and no link leads out of it
	base string   // sessions/<hash>, relative to root

	mu      sync.Mutex       // guards the fields below
	inUse   map[key]struct{} // sessions that are open or being removed
	waiting []syncRequest    // the next group
	syncing bool             // a group is in progress

	linked   map[string]bool      // folders whose name is synced, for the group in progress
	syncFile func(*os.File) error // os.File.Sync, replaced by tests

	stop  context.CancelFunc // ends the sweep
	swept sync.WaitGroup
}

var _ Store = (*Files)(nil)

// NewFiles opens the store of one working directory. The caller must call [Files.Close].
func NewFiles(cfg FilesConfig) (*Files, error) {
	switch {
	case cfg.Dir == "":
		return nil, errors.New("open session store: no state directory")
	case cfg.CWD == "":
		return nil, errors.New("open session store: no working directory")
	case cfg.TTL < 0:
		return nil, fmt.Errorf("open session store: TTL %v is negative", cfg.TTL)
	}

	cfg.TTL = cmp.Or(cfg.TTL, 720*time.Hour)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	f := &Files{
		cfg: cfg, inUse: map[key]struct{}{}, linked: map[string]bool{}, syncFile: (*os.File).Sync,
	}
	if err := f.openDirs(); err != nil {
		return nil, fmt.Errorf("open session store: %w", err)
	}

	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.swept.Go(func() { f.sweep(ctx) })
	return f, nil
}

func (f *Files) openDirs() error {
	cwd, err := filepath.Abs(f.cfg.CWD)
	if err == nil {
		cwd, err = filepath.EvalSymlinks(cwd)
	}

	if err != nil {
		return fmt.Errorf("find working directory: %w", err)
	}

	f.cfg.CWD = cwd
	hash := sha256.Sum256([]byte(cwd))
	f.base = "sessions/" + hex.EncodeToString(hash[:16])
	if err := os.MkdirAll(f.cfg.Dir, 0o700); err != nil {
		return err
	}

	if f.root, err = os.OpenRoot(f.cfg.Dir); err != nil {
		return err
	}

	if err = f.root.MkdirAll(f.base, 0o700); err != nil {
		_ = f.root.Close() // nothing was written
	}

	return err
}

// Size returns the bytes of the file of a session, 0 if it is unknown.
func (f *Files) Size(agentID, id string) int64 {
	if !validFile(id) {
		return 0
	}

	for _, path := range f.paths(key{agentID, id}) {
		if info, err := f.root.Lstat(path); err == nil {
			return info.Size()
		}
	}

	return 0
}

// Dir returns the directory with the transcripts, which agents should not be able to read.
func (f *Files) Dir() string { return filepath.Join(f.cfg.Dir, "sessions") }

// Close releases the directories. Open sessions that have a file remain usable, and their runs must
// still close them.
func (f *Files) Close() error {
	f.stop()
	f.swept.Wait()
	return f.root.Close()
}

// Open implements [Store]. An agent id must match ^[a-z0-9](-?[a-z0-9])*$ and have at most 63
// characters.
func (f *Files) Open(_ context.Context, agentID, id string) (Session, error) {
	if !validAgent(agentID) {
		return nil, fmt.Errorf("open session: invalid agent id %q", agentID)
	}

	if k := (key{agentID, id}); validFile(id) {
		t, err := f.resume(k)
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, ErrBusy):
			return nil, ErrBusy
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("open session %s of agent %s: %w", id, agentID, err)
		}
	}

	k := key{agentID, ids.New()}
	f.acquire(k)
	return &transcript{store: f, key: k, path: f.paths(k)[0]}, nil
}

// Delete implements [Store]. The content of the file is not read: a damaged transcript is deleted
// too.
func (f *Files) Delete(_ context.Context, id string) error {
	if !validFile(id) {
		return nil
	}

	agents, err := f.agents()
	if err != nil {
		return fmt.Errorf("delete session %s: %w", id, err)
	}

	for _, agent := range agents {
		if err := f.remove(key{agent, id}); errors.Is(err, ErrBusy) {
			return ErrBusy
		} else if err != nil {
			return fmt.Errorf("delete session %s of agent %s: %w", id, agent, err)
		}
	}

	return nil
}

// agents returns the agents that have a folder. Symbolic links are ignored.
func (f *Files) agents() ([]string, error) {
	entries, err := fs.ReadDir(f.root.FS(), f.base)
	var names []string
	for _, e := range entries {
		if e.IsDir() && validAgent(e.Name()) {
			names = append(names, e.Name())
		}
	}

	return names, err
}

// remove removes the files of a session, if it has any.
func (f *Files) remove(k key) error {
	if !f.acquire(k) {
		return ErrBusy
	}

	defer f.release(k)
	for _, path := range f.paths(k) {
		if err := f.removeFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}

func (f *Files) removeFile(path string) error {
	file, _, err := f.openLocked(path)
	if err != nil {
		return err
	}

	if err = f.root.Remove(temporary(path)); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = f.root.Remove(path)
	}

	if err == nil {
		err = f.sync(nil, filepath.Dir(path))
	}

	return errors.Join(err, unlockAndClose(file))
}

func (f *Files) expired(info fs.FileInfo) bool { return time.Since(info.ModTime()) >= f.cfg.TTL }
