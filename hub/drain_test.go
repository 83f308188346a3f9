package hub_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// A hub that drains rejects new answers and runs while those in progress continue, and ends
// although other requests arrive all the time.
func TestADrainingHubRejectsNewAnswersAndEnds(t *testing.T) {
	t.Parallel()
	s := openSpender(t, sqlite(t), modeltest.Text("Half"), modeltest.Hang())
	running, end := context.WithCancel(t.Context())
	defer end()
	first, err := s.start(running, 3)
	require.NoError(t, err)
	defer first.Body.Close()
	drained := make(chan error, 1)
	go func() { drained <- s.hubs[1].Drain(t.Context()) }()

	for face := 2; face <= 3; face++ { // a chat and a run
		require.Eventually(t, func() bool {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			res, err := s.start(ctx, face)
			require.NoError(t, err)
			defer res.Body.Close()
			return res.StatusCode == http.StatusServiceUnavailable
		}, time.Minute, 20*time.Millisecond)
	}
	require.Empty(t, drained)
	body, send := io.Pipe()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.hubs[1].ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/auth/login", body))
	}()
	_, err = io.WriteString(send, "{") // it is being read
	require.NoError(t, err)
	end()
	require.NoError(t, <-drained)
	require.NoError(t, send.Close())
	<-answered
}
