package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/internal/pgtest"
)

// A wait for the database that is given up is no fault of the hub's.
func TestWhatIsUnavailable(t *testing.T) {
	for name, row := range map[string]struct {
		err         error
		unavailable bool
	}{
		"a lost database":    {fmt.Errorf("read: %w", db.ErrUnavailable), true},
		"no time left":       {fmt.Errorf("record: %w", context.DeadlineExceeded), true},
		"a client that left": {fmt.Errorf("read: %w", context.Canceled), false},
		"anything else":      {errors.New("no such column"), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := hub.Translate(row.err)
			require.Equal(t, row.unavailable, e != nil && e.Code == api.Unavailable)
		})
	}
}

// A server that takes no writes, as one that another has replaced, lets nobody sign in: requests are to go elsewhere.
func TestAReadOnlyDatabaseIsNotReady(t *testing.T) {
	url := pgtest.Start(t).URL(t)
	s := open(t, url)
	admin := dbtest.Open(t, url).Write()
	readOnly := func(value string) {
		for _, statement := range []string{
			"SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()",
		} {
			_, err := admin.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
	}
	status := func(want int) func() bool {
		return func() bool { return s.call("GET", "/health/ready", "", "").status == want }
	}
	require.True(t, status(http.StatusOK)())
	readOnly("on")
	require.Eventually(t, status(http.StatusServiceUnavailable), 10*time.Second, 5*time.Millisecond)
	s.call("POST", "/auth/setup", "", `{"password":"`+password+`","setup_token":"`+setupToken+`"}`).refused(http.StatusServiceUnavailable, "unavailable")
	readOnly("off")
	require.Eventually(t, status(http.StatusOK), 10*time.Second, 5*time.Millisecond)
}

func TestADrainThatIsGivenUpTellsWhatItWaitedFor(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	body, send := io.Pipe()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/auth/login", body))
	}()
	_, err := io.WriteString(send, "{") // it is being read
	require.NoError(t, err)
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	err = s.Drain(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "1 of which are being answered")
	require.NoError(t, send.Close())
	<-answered
	require.NoError(t, s.Drain(t.Context()))
}
