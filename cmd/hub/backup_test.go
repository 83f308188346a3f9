package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// created are the names of providers that a hub has acknowledged.
type created struct {
	mu    sync.Mutex // guards names
	names []string
}

func (c *created) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.names)
}

// create creates providers until stop is called.
func create(t *testing.T, url, token string) (names *created, stop func()) {
	t.Helper()
	names = &created{}
	var writers sync.WaitGroup
	stopped := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stopped:
					return
				default:
				}
				name := fmt.Sprintf("provider-%d-%d", w, n)
				res := call(t, "POST", url+"/api/v1/admin/providers", token, `{"name":"`+name+`","protocol":"openai","baseUrl":"https://llm.example.com"}`)
				if res.status == http.StatusCreated {
					names.mu.Lock()
					names.names = append(names.names, name)
					names.mu.Unlock()
				}
			}
		})
	}
	return names, func() { close(stopped); writers.Wait() }
}

// A backup that is killed harms neither the hub, which serves all the time, nor the former backup.
// The next one has every change that was acknowledged before it began.
func TestBackupOfAHubThatServes(t *testing.T) {
	t.Parallel()
	hub := binary(t)
	dbtest.Each(t, func(t *testing.T, url string) {
		env := append(database(t, url), "PATH", pgtest.Bin(t))
		p := spawn(t, hub, env)
		token := setUp(t, p.Instance)
		names, stop := create(t, p.URL, token)
		defer stop()
		require.Eventually(t, func() bool { return len(names.list()) > 20 }, daemontest.Patience, time.Millisecond)
		file := filepath.Join(t.TempDir(), "hub.backup")
		run := func() *daemontest.Process { return daemontest.Spawn(t, hub, t.TempDir(), env, "backup", file) }
		reached := func(name string, size int64) bool {
			info, err := os.Stat(name)
			return err == nil && info.Size() >= size
		}
		for _, size := range []int64{0, 1} { // while it writes the dump, and the archive
			killed := run()
			require.Eventually(t, func() bool { return reached(file+".partial", size) || reached(file, 0) }, daemontest.Patience, 100*time.Microsecond, "%s", killed.Log)
			_ = killed.Cmd.Process.Kill() // an error means that it was faster
			killed.Exit(t)
		}
		before := names.list()
		complete := run()
		require.Zero(t, complete.Exit(t), "%s", complete.Log)
		require.Contains(t, complete.Stdout.String(), "the backup has a database of")
		require.NoFileExists(t, file+".partial")
		require.NoFileExists(t, file+".partial.database")
		after := len(names.list())
		require.Eventually(t, func() bool { return len(names.list()) > after }, daemontest.Patience, time.Millisecond, "it serves")

		restored := slices.Clone(env)
		restored[1], restored[3] = t.TempDir(), "sqlite://"+filepath.Join(t.TempDir(), "hub.db")
		if strings.HasPrefix(url, "postgres") {
			restored[3] = pgtest.URL(t)
		}
		r := daemontest.Spawn(t, hub, t.TempDir(), restored, "restore", file)
		require.Zero(t, r.Exit(t), "%s", r.Log)
		require.Contains(t, r.Stdout.String(), "start the hub")
		next := spawn(t, hub, restored)
		log := call(t, "GET", next.URL+"/api/v1/admin/audit-logs/export?action=provider.create", token, "")
		for _, name := range before {
			require.Contains(t, log.text, `"`+name+`"`, "it was acknowledged before the backup")
		}
		require.Equal(t, true, call(t, "GET", next.URL+"/api/v1/admin/audit-logs/verify", token, "").body["ok"])
	})
}

func TestBackupAndRestoreExplainWhatIsMissing(t *testing.T) {
	t.Parallel()
	env := []string{"HUB_DATA_DIR", t.TempDir()}
	file := filepath.Join(t.TempDir(), "hub.backup")
	_, err := once(t, env, "backup")
	require.EqualError(t, err, "name one file: hub backup FILE")
	_, err = once(t, env, "backup", file)
	require.ErrorContains(t, err, "no database exists")
	in := serving(t, env)
	setUp(t, in)
	_, err = once(t, env, "backup", "--timeout", "1ns", file)
	require.ErrorContains(t, err, "not complete after --timeout, which is 1ns")
	out, err := once(t, env, "backup", file)
	require.NoError(t, err)
	require.Contains(t, out, "the backup has a database of sqlite with ")

	_, err = once(t, env, "restore", file)
	require.ErrorContains(t, err, "hub.db exists: stop the hub")
	fresh := t.TempDir()
	_, err = once(t, []string{"HUB_DATA_DIR", fresh}, "restore", file)
	require.ErrorContains(t, err, "the encryption key is missing: copy it to that file")
	key, err := os.ReadFile(filepath.Join(env[1], "encryption.key"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(fresh, "encryption.key"), key, 0o600))
	out, err = once(t, []string{"HUB_DATA_DIR", fresh}, "restore", file)
	require.NoError(t, err)
	require.Contains(t, out, "restored: a database of sqlite")
	_, err = once(t, []string{"HUB_DATA_DIR", t.TempDir()}, "restore", filepath.Join(fresh, "none"))
	require.ErrorContains(t, err, "no such file")
}

func TestBackupToStandardOutput(t *testing.T) {
	t.Parallel()
	env := []string{"HUB_DATA_DIR", t.TempDir()}
	setUp(t, serving(t, env))
	archive, err := once(t, env, "backup", "-")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(archive, "agenthost-backup.json"), "it has only the archive")
}
