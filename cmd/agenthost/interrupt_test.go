package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/client"
)

// A second Ctrl-C ends an answer of a hub that does not respond.
func TestInterruptOfASilentHub(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	arrived := make(chan struct{}, 8)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // afterwards, the context ends with the connection
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	hub, err := client.New(client.Config{BaseURL: srv.URL, Token: "x"})
	require.NoError(t, err)
	c := &chat{app: &app{stdout: &out, stderr: &errs, format: "table"}, client: hub, agent: "a", session: "s", signals: make(chan os.Signal, 4)}
	ended := make(chan error, 1)
	go func() { ended <- c.answer(t.Context(), "hello") }()
	<-arrived
	c.signals <- os.Interrupt
	<-arrived // the call that cancels the answer
	c.signals <- os.Interrupt
	require.ErrorIs(t, <-ended, errInterrupted)
}
