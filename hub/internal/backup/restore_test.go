package backup_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/backup"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// member is a member of an archive.
type member struct {
	header  tar.Header
	content []byte
}

// read returns the members of an archive.
func read(t testing.TB, path string) (all []member) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		all = append(all, member{*header, content})
	}
}

// pack returns an archive.
func pack(t testing.TB, all []member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range all {
		if m.header.Typeflag == tar.TypeReg {
			m.header.Size = int64(len(m.content))
		}
		require.NoError(t, w.WriteHeader(&m.header))
		if m.header.Size > 0 {
			_, err := w.Write(m.content)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// manifest changes the manifest of an archive.
func manifest(change func(m *backup.Manifest)) func(t *testing.T, all []member) []member {
	return func(t *testing.T, all []member) []member {
		var m backup.Manifest
		require.NoError(t, json.Unmarshal(all[0].content, &m))
		change(&m)
		text, err := json.Marshal(m)
		require.NoError(t, err)
		all[0].content = text
		return all
	}
}

func TestRestoreRejects(t *testing.T) {
	t.Parallel()
	key := secret.Generate()
	in := install(t, dbtest.SQLite(t), key).open()
	in.exec("INSERT INTO notes (id, body) VALUES ('a', $1)", in.Keyring.Seal([]byte("x"), nil))
	in.put("a.ts", "content a")
	in.put("b.ts", "content b")
	path, m := in.write()
	id := m.Keys[0]

	const notABackup = "the file is not a backup of a hub, or is damaged"
	const evil = "tools/" + "0000000000000000000000000000000000000000000000000000000000000000" + "/../../x.ts"
	for name, row := range map[string]struct {
		change func(t *testing.T, all []member) []member
		want   string
	}{
		"another engine":               {manifest(func(m *backup.Manifest) { m.Engine = db.PostgreSQL }), "the backup is one of postgres, and the database that is configured is sqlite"},
		"a newer schema":               {manifest(func(m *backup.Manifest) { m.Schema["notes"] = 2 }), `hub v1.2.3: the database is newer than this program: it has migration 0002 of "notes"`},
		"a newer series":               {manifest(func(m *backup.Manifest) { m.Schema["later"] = 1 }), `it has migration 0001 of "later"`},
		"a newer format":               {manifest(func(m *backup.Manifest) { m.Version = 2 }), "the backup has format 2, and this program reads up to 1"},
		"another key":                  {manifest(func(m *backup.Manifest) { m.Keys = []string{"00"} }), "encrypted with the key 00, which is not configured"},
		"no format":                    {manifest(func(m *backup.Manifest) { m.Version = 0 }), notABackup},
		"no engine":                    {manifest(func(m *backup.Manifest) { m.Engine = "" }), notABackup},
		"a path in a key":              {manifest(func(m *backup.Manifest) { m.Artifacts[0].Key = evil }), notABackup},
		"a key twice":                  {manifest(func(m *backup.Manifest) { m.Artifacts[1] = m.Artifacts[0] }), notABackup},
		"a negative size":              {manifest(func(m *backup.Manifest) { m.Artifacts[0].Size = -1 }), notABackup},
		"a huge artifact":              {manifest(func(m *backup.Manifest) { m.Artifacts[0].Size = 1 << 60 }), notABackup},
		"a huge database":              {manifest(func(m *backup.Manifest) { m.Database.Size = 1 << 60 }), notABackup},
		"sizes that are huge together": {manifest(func(m *backup.Manifest) { m.Artifacts[0].Size, m.Artifacts[1].Size = m.Database.Size, m.Database.Size }), notABackup},
		"a hash that is no hash":       {manifest(func(m *backup.Manifest) { m.Database.SHA256 = strings.Repeat("g", 64) }), notABackup},
		"an artifact that is missing":  {manifest(func(m *backup.Manifest) { m.Artifacts = m.Artifacts[1:] }), notABackup},
		"a manifest with a million values": {func(_ *testing.T, all []member) []member {
			all[0].content = []byte(`{"artifacts":[` + strings.Repeat(`{},`, 2_000_000) + `{}]}`)
			return all
		}, "too many values"},
		"a manifest that is no JSON": {func(_ *testing.T, all []member) []member { all[0].content = []byte("{"); return all }, notABackup},
		"changed content":            {func(_ *testing.T, all []member) []member { all[1].content[0]++; return all }, "the content has another SHA-256"},
		"a changed database":         {func(_ *testing.T, all []member) []member { all[3].content[99]++; return all }, "database: the content has another SHA-256"},
		"a longer member":            {func(_ *testing.T, all []member) []member { all[2].content = append(all[2].content, 'x'); return all }, notABackup},
		"a path in a name":           {func(_ *testing.T, all []member) []member { all[1].header.Name = "artifacts/" + evil; return all }, notABackup},
		"an absolute name":           {func(_ *testing.T, all []member) []member { all[3].header.Name = "/etc/passwd"; return all }, notABackup},
		"a symbolic link": {func(_ *testing.T, all []member) []member {
			all[1].header.Typeflag, all[1].header.Linkname, all[1].header.Size = tar.TypeSymlink, "/etc/passwd", 0
			return all
		}, notABackup},
		"an unknown record": {func(_ *testing.T, all []member) []member {
			all[1].header.Format, all[1].header.PAXRecords = tar.FormatPAX, map[string]string{"VENDOR.x": "y"}
			return all
		}, notABackup},
		"another order":    {func(_ *testing.T, all []member) []member { all[1], all[2] = all[2], all[1]; return all }, notABackup},
		"a further member": {func(_ *testing.T, all []member) []member { return append(all, all[3]) }, "it does not end after the database"},
		"no database":      {func(_ *testing.T, all []member) []member { return all[:3] }, notABackup},
		"no manifest":      {func(_ *testing.T, all []member) []member { return all[1:] }, notABackup},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "changed")
			require.NoError(t, os.WriteFile(file, pack(t, row.change(t, read(t, path))), 0o600))
			requireRejected(t, file, key, row.want)
		})
	}
	t.Run("unchanged", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "unchanged")
		require.NoError(t, os.WriteFile(file, pack(t, read(t, path)), 0o600))
		fresh := install(t, dbtest.SQLite(t), key)
		_, err := fresh.restore(file)
		require.NoError(t, err)
	})
	t.Run("without the key", func(t *testing.T) { requireRejected(t, path, secret.Generate(), "encrypted with the key "+id) })
	t.Run("truncated", func(t *testing.T) {
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, size := range []int{0, 1, 511, 512, 700, 1536, 2048, 4000, len(whole) / 2, len(whole) - 1025} {
			file := filepath.Join(t.TempDir(), "truncated")
			require.NoError(t, os.WriteFile(file, whole[:size], 0o600))
			requireRejected(t, file, key, notABackup)
		}
	})
}

// requireRejected requires that a restore fails and writes nothing.
func requireRejected(t *testing.T, file, key, want string) {
	t.Helper()
	fresh := install(t, dbtest.SQLite(t), key)
	_, err := fresh.restore(file)
	require.ErrorContains(t, err, want)
	require.Empty(t, fresh.list())
	require.NoFileExists(t, strings.TrimPrefix(fresh.Database.URL, "sqlite://"))
}

// SQLite would apply the log of a former database to the restored one.
func TestRestoreRejectsTheLogOfAFormerDatabase(t *testing.T) {
	t.Parallel()
	in := install(t, dbtest.SQLite(t), secret.Generate()).open()
	path, _ := in.write()
	fresh := install(t, dbtest.SQLite(t), secret.Generate())
	require.NoError(t, os.WriteFile(strings.TrimPrefix(fresh.Database.URL, "sqlite://")+"-wal", []byte("x"), 0o600))
	_, err := fresh.restore(path)
	require.ErrorContains(t, err, "hub.db-wal exists: stop the hub, and move the file away")
}

func FuzzRestore(f *testing.F) {
	ref := artifact.Ref{Kind: artifact.Tools, Hash: strings.Repeat("0", 64), Name: "a.ts"}
	text, err := json.Marshal(backup.Manifest{
		Version: 1, Engine: db.SQLite, Database: backup.Database{Size: 1, SHA256: ref.Hash}, Artifacts: []backup.Artifact{{Key: ref.Key(), Size: 1}},
	})
	require.NoError(f, err)
	regular := func(name string, content []byte) member {
		return member{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600}, content}
	}
	f.Add(pack(f, []member{regular("agenthost-backup.json", text), regular("artifacts/"+ref.Key(), []byte("x")), regular("database", []byte("x"))}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "archive")
		require.NoError(t, os.WriteFile(file, data, 0o600))
		requireRejected(t, file, secret.Generate(), "") // no input has the hash of its content
	})
}
