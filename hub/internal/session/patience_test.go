package session_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	users "github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// A failure is counted and recorded even if the client disconnects. The time for it is bounded,
// because the database may be locked.
func TestRecordingAFailureIsBounded(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t, migrations...)
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.Open(t, url, users.Migrations, db.Series{Name: "auditlog", Files: sqlaudit.Migrations()})
		audit, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
		require.NoError(t, err)
		keyring, err := secret.Parse(secret.Generate())
		require.NoError(t, err)
		handle, err := store.New(store.Config{DB: d, Keyring: keyring, Audit: audit})
		require.NoError(t, err)
		sites := config{Store: handle, SetupToken: "a token that was given"}.open(t)
		var last error
		h, err := api.New(api.Config{Authenticate: sites.service.Authenticate, Translate: func(err error) *wire.Error {
			last = err
			return nil
		}}, sites.routes()...)
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		post := func(path, body string) {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body)))
		}
		const guess = `{"username":"nobody","password":"wrong password"}`
		synctest.Wait() // the first sweep has ended
		held, err := d.Write().Conn(t.Context())
		require.NoError(t, err)
		for path, body := range map[string]string{"/auth/login": guess, "/auth/setup": `{"setup_token":"wrong"}`} {
			begin := time.Now()
			post(path, body)
			require.Equal(t, 10*time.Second, time.Since(begin), path)
			require.ErrorIs(t, last, context.DeadlineExceeded, path)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			post("/auth/login", guess)
		}()
		synctest.Wait() // it waits to be recorded
		leave()
		synctest.Wait()
		require.NoError(t, held.Close())
		<-done
		var failures int
		require.NoError(t, d.Read().QueryRowContext(t.Context(), `SELECT failures FROM login_networks`).Scan(&failures))
		require.Equal(t, 1, failures)
		head, err := audit.Head(t.Context(), api.DefaultTenant)
		require.NoError(t, err)
		require.EqualValues(t, 1, head.ID)
	})
}
