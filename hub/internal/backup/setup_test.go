package backup_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/backup"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// notes is a series with sealed texts and artifacts.
func notes(more ...string) db.Series {
	files := fstest.MapFS{"all/0001_notes.sql": {Data: []byte(`
CREATE TABLE notes (id TEXT PRIMARY KEY, body ${bytes} NOT NULL);
CREATE TABLE files (artifact TEXT PRIMARY KEY);
CREATE TABLE pairs (a BIGINT NOT NULL, b BIGINT NOT NULL);`)}}
	for _, name := range more {
		files["all/"+name] = &fstest.MapFile{Data: []byte("CREATE TABLE later (id TEXT PRIMARY KEY);")}
	}
	return db.Series{Name: "notes", Files: files}
}

var sealed = []store.Sealed{{Table: "notes", Column: "body", ID: "id"}}

// installation is a database with artifacts.
type installation struct {
	backup.Config
	t   *testing.T
	db  *db.DB
	dir string // of the artifacts and of backups
}

// install returns an installation on an empty database, with the client programs of PostgreSQL.
func install(t *testing.T, url string, keys ...string) *installation {
	t.Helper()
	dir := t.TempDir()
	folder, err := blob.OpenFolder(filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	keyring, err := secret.Parse(keys...)
	require.NoError(t, err)
	return &installation{t: t, dir: dir, Config: backup.Config{
		Database: db.Config{URL: url}, Artifacts: folder, Keyring: keyring, Series: []db.Series{notes()}, Sealed: sealed, Version: "v1.2.3",
		Named: func(ctx context.Context, q db.Querier) ([]string, error) {
			return db.Values[string](ctx, q, "list files", "SELECT artifact FROM files")
		},
		Protect:  func(context.Context, time.Time) error { return nil },
		Programs: dbtest.Programs(t),
		Now:      func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) },
	}}
}

func (i *installation) open() *installation {
	i.db = dbtest.Open(i.t, i.Database.URL, i.Series...)
	return i
}

func (i *installation) exec(statement string, args ...any) {
	i.t.Helper()
	require.NoError(i.t, db.Exec(i.t.Context(), i.db.Write(), "fill", statement, args...))
}

// put stores a file, and names it in the database.
func (i *installation) put(name, content string) artifact.Ref {
	i.t.Helper()
	files, err := artifact.New(artifact.Config{Driver: i.Artifacts, Keyring: i.Keyring})
	require.NoError(i.t, err)
	ref, err := files.Put(i.t.Context(), artifact.Tools, name, strings.NewReader(content))
	require.NoError(i.t, err)
	i.exec("INSERT INTO files (artifact) VALUES ($1)", ref.Key())
	return ref
}

func (i *installation) write() (path string, m backup.Manifest) {
	i.t.Helper()
	path = filepath.Join(i.dir, "hub.backup")
	m, err := backup.WriteFile(i.t.Context(), i.Config, i.db, path)
	require.NoError(i.t, err)
	return path, m
}

func (i *installation) restore(path string) (backup.Manifest, error) {
	i.t.Helper()
	f, err := os.Open(path)
	require.NoError(i.t, err)
	defer f.Close()
	return backup.Restore(i.t.Context(), i.Config, f)
}

// list returns the keys of all artifacts.
func (i *installation) list() (keys []string) {
	i.t.Helper()
	for info, err := range i.Artifacts.List(i.t.Context(), "") {
		require.NoError(i.t, err)
		keys = append(keys, info.Key)
	}
	return keys
}
