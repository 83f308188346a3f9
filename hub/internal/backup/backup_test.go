package backup_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/backup"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// empty returns the URL of an empty database of the same engine.
func empty(t *testing.T, url string) string {
	t.Helper()
	if strings.HasPrefix(url, "sqlite:") {
		return dbtest.SQLite(t)
	}
	return pgtest.URL(t)
}

func TestRestoredIsWhatWasBackedUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		former, present := secret.Generate(), secret.Generate()
		old := install(t, url, former).open()
		old.exec("INSERT INTO notes (id, body) VALUES ('a', $1), ('b', $2)", old.Keyring.Seal([]byte("x"), nil), []byte("never sealed"))
		tool, gone := old.put("weather.ts", "export default {}"), old.put("ünï.ts", "gone")
		long := old.put(strings.Repeat("n", 190)+".ts", "")
		require.NoError(t, old.Artifacts.Delete(t.Context(), gone.Key(), time.Now().Add(time.Hour)))
		path, m := old.write()

		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		require.Equal(t, []string{secret.KeyID(old.Keyring.Seal(nil, nil))}, m.Keys)
		require.Equal(t, []string{gone.Key()}, m.Missing)
		require.ElementsMatch(t, []backup.Artifact{{Key: tool.Key(), Size: 17}, {Key: long.Key()}}, m.Artifacts)
		require.Equal(t, map[string]int{"notes": 1}, m.Schema)
		require.Equal(t, old.db.Engine(), m.Engine)
		require.Equal(t, "2026-01-02T03:04:05Z v1.2.3", m.Created.Format(time.RFC3339)+" "+m.Hub)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(content), former, "the key is not in the backup")
		require.Equal(t, []string{"blobs", "hub.backup"}, names(t, old.dir), "no temporary file")

		fresh := install(t, empty(t, url), present, former)
		restored, err := fresh.restore(path)
		require.NoError(t, err)
		require.Equal(t, m, restored)
		fresh.open()
		value, err := db.Value[[]byte](t.Context(), fresh.db.Read(), "read note", "SELECT body FROM notes WHERE id = 'a'")
		require.NoError(t, err)
		plain, err := fresh.Keyring.Open(value, nil)
		require.NoError(t, err)
		require.Equal(t, "x", string(plain))
		require.ElementsMatch(t, []string{tool.Key(), long.Key()}, fresh.list())
		blob, err := fresh.Artifacts.Open(t.Context(), tool.Key())
		require.NoError(t, err)
		defer blob.Close()
		text, err := io.ReadAll(blob.Content)
		require.NoError(t, err)
		require.Equal(t, "export default {}", string(text))

		_, err = fresh.restore(path)
		require.ErrorContains(t, err, map[db.Engine]string{db.SQLite: "hub.db exists: stop the hub", db.PostgreSQL: "create an empty one"}[m.Engine])
	})
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Each transaction adds a row to two tables. A backup has both rows or none.
func TestABackupIsOneState(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		in := install(t, url, secret.Generate()).open()
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		wrote := make(chan struct{}, 1)
		for range 2 {
			writers.Go(func() {
				for ctx.Err() == nil {
					err := in.db.Tx(ctx, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, "INSERT INTO notes (id, body) SELECT CAST(COUNT(*) AS TEXT), $1 FROM pairs", bytes.Repeat([]byte("x"), 2000))
						if err == nil {
							_, err = tx.ExecContext(ctx, "INSERT INTO pairs (a, b) VALUES (1, 1)")
						}
						return err
					})
					if err == nil {
						select {
						case wrote <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		for range 3 {
			<-wrote
			path, _ := in.write()
			<-wrote
			fresh := install(t, empty(t, url), secret.Generate())
			_, err := fresh.restore(path)
			require.NoError(t, err)
			fresh.open()
			difference, err := db.Value[int](t.Context(), fresh.db.Read(), "compare", "SELECT (SELECT COUNT(*) FROM notes) - (SELECT COUNT(*) FROM pairs)")
			require.NoError(t, err)
			require.Zero(t, difference)
		}
		stop()
		writers.Wait()
	})
}

func TestAFailedBackupLeavesTheFormerOne(t *testing.T) {
	t.Parallel()
	in := install(t, dbtest.SQLite(t), secret.Generate()).open()
	ref := in.put("a.ts", "content")
	path, _ := in.write()
	former, err := os.ReadFile(path)
	require.NoError(t, err)

	failed := errors.New("planted")
	for name, row := range map[string]struct {
		change func(cfg *backup.Config, ctx context.CancelCauseFunc)
		want   string
	}{
		"cancelled": {func(cfg *backup.Config, cancel context.CancelCauseFunc) {
			cfg.Named = func(context.Context, db.Querier) ([]string, error) { cancel(failed); return []string{ref.Key()}, nil }
		}, "planted"},
		"without protection": {func(cfg *backup.Config, _ context.CancelCauseFunc) {
			cfg.Protect = func(context.Context, time.Time) error { return failed }
		}, "protect artifacts: planted"},
		"of a damaged file": {func(*backup.Config, context.CancelCauseFunc) {
			require.NoError(t, in.Artifacts.Put(t.Context(), ref.Key(), strings.NewReader("CONTENT"), 7))
		}, "the stored file " + ref.Key() + " is damaged"},
		"of a file that was cut": {func(*backup.Config, context.CancelCauseFunc) {
			require.NoError(t, in.Artifacts.Put(t.Context(), ref.Key(), strings.NewReader("cont"), 4))
		}, "is damaged"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cfg := in.Config
		row.change(&cfg, cancel)
		_, err := backup.WriteFile(ctx, cfg, in.db, path)
		require.ErrorContains(t, err, row.want, name)
		cancel(nil)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, former, content, name)
		require.Equal(t, []string{"blobs", "hub.backup"}, names(t, in.dir), name)
	}
}

func TestABackupReplacesOnlyABackup(t *testing.T) {
	t.Parallel()
	in := install(t, dbtest.SQLite(t), secret.Generate()).open()
	path, _ := in.write()
	// Files that a killed process left are replaced. The file is a new one: who created the former one
	// has it open.
	former, err := os.Create(path + ".partial")
	require.NoError(t, err)
	defer func() { require.NoError(t, former.Close()) }()
	require.NoError(t, os.WriteFile(path+".partial", []byte("left over"), 0o644))
	require.NoError(t, os.WriteFile(path+".partial.database", []byte("left over"), 0o644))
	in.write()
	require.Equal(t, []string{"blobs", "hub.backup"}, names(t, in.dir))
	content, err := io.ReadAll(former)
	require.NoError(t, err)
	require.Equal(t, "left over", string(content))

	database := strings.TrimPrefix(in.Database.URL, "sqlite://")
	for _, path := range []string{database, filepath.Join(in.dir, "blobs")} {
		_, err := backup.WriteFile(t.Context(), in.Config, in.db, path)
		require.ErrorContains(t, err, "exists and is not a backup: choose another name")
	}
	require.NoError(t, in.db.Ping(t.Context()))
}

// Who can write to the directory cannot choose where the dump is written, or who can read it.
func TestADumpIsANewFile(t *testing.T) {
	t.Parallel()
	in := install(t, dbtest.SQLite(t), secret.Generate()).open()
	path, victim := filepath.Join(in.dir, "hub.backup"), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o644))
	for _, plant := range []func(from, to string) error{os.Symlink, os.Link} {
		require.NoError(t, plant(victim, path+".partial"))
		require.NoError(t, plant(victim, path+".partial.database"))
		in.write()
		content, err := os.ReadFile(victim)
		require.NoError(t, err)
		require.Equal(t, "precious", string(content))
		require.Equal(t, []string{"blobs", "hub.backup"}, names(t, in.dir))
	}
}

func TestTwoProcessesDoNotWriteOneBackup(t *testing.T) {
	t.Parallel()
	in := install(t, dbtest.SQLite(t), secret.Generate()).open()
	cfg := in.Config
	cfg.Protect = func(context.Context, time.Time) error {
		_, err := backup.WriteFile(t.Context(), in.Config, in.db, filepath.Join(in.dir, "hub.backup"))
		require.ErrorContains(t, err, "another process writes this backup")
		return nil
	}
	_, err := backup.WriteFile(t.Context(), cfg, in.db, filepath.Join(in.dir, "hub.backup"))
	require.NoError(t, err)
}

func TestABackupToAStream(t *testing.T) {
	t.Parallel()
	in := install(t, dbtest.SQLite(t), secret.Generate()).open()
	in.TempDir = t.TempDir()
	var out bytes.Buffer
	m, err := backup.Write(t.Context(), in.Config, in.db, &out)
	require.NoError(t, err)
	require.Empty(t, names(t, in.TempDir))
	path := filepath.Join(in.dir, "copy")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	fresh := install(t, dbtest.SQLite(t), secret.Generate())
	restored, err := fresh.restore(path)
	require.NoError(t, err)
	require.Equal(t, m, restored)
}
