package client_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// A message that the hub rejects is not sent again as after a lost connection.
func TestARejectedMessageIsReported(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var requests atomic.Int32
			c := open(t, client.Config{BaseURL: stub(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"code":"upstream_failed","message":"The runtime rejected the message."}`))
			})})
			var errs []error
			message := wire.ChatMessageRequest{Message: "m", OnDisconnect: "continue", ClientMessageID: "1"}
			for event, err := range c.Chats.Send(t.Context(), "helper", "s", message) {
				require.Nil(t, event)
				errs = append(errs, err)
			}
			require.Len(t, errs, 1)
			require.ErrorIs(t, errs[0], wire.Code("upstream_failed"))
			require.EqualValues(t, 1, requests.Load())
		})
	}
}
