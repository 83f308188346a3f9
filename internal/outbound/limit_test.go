package outbound_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/outbound"
)

func TestLimit(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", len(r.URL.Query().Get("text"))))
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: outbound.Limit(outbound.Transport(), 5)}
	t.Cleanup(client.CloseIdleConnections)
	for text, want := range map[string]error{"": nil, "12345": nil, "123456": outbound.ErrTooLarge, "123456789": outbound.ErrTooLarge} {
		_, err := get(t.Context(), client, server.URL+"?text="+text)
		require.ErrorIs(t, err, want, text)
	}
}
