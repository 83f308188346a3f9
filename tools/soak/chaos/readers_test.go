package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// reading is what a client has of an answer that it receives over several connections.
type reading struct {
	answer   string // its id
	last     string // the id of the last event
	complete []string
	pending  string // the text of the message in progress
	streamed bool
	status   string // of hub.saved
	usage    wire.Usage
	done     bool
}

// read reads at most n events.
func (r *reading) read(body io.Reader, n int) error {
	for event, err := range sse.NewDecoder(body).Events() {
		if err != nil {
			return err
		}
		var data struct {
			Type, Status, AssistantMessageID string

			Usage   wire.Usage
			Partial struct{ Type, Text string }
			Message struct {
				Content []struct{ Type, Text string }
			}
		}
		if err := json.Unmarshal(event.Data, &data); err != nil {
			return err
		}
		r.last = event.ID
		switch {
		case data.Type == "hub":
			r.answer = data.AssistantMessageID
		case data.Type == "hub.gap":
			r.complete, r.pending, r.streamed = nil, "", false
		case data.Type == "hub.saved":
			r.status, r.usage = data.Status, data.Usage
		case event.Type == "partial_message":
			r.pending += data.Partial.Text
			r.streamed = true
		case event.Type == "assistant":
			for _, block := range data.Message.Content {
				if block.Type == "text" && !r.streamed {
					r.complete = append(r.complete, block.Text)
				}
			}
			if r.streamed {
				r.complete = append(r.complete, r.pending)
			}
			r.pending, r.streamed = "", false
		case event.Type == "done":
			r.done = true
			return nil
		}
		if n--; n == 0 {
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}

// readAgain sends a question whose answer continues without its client, which leaves it at random
// and reads the rest at any hub. What it has received together is the answer.
func (c *client) readAgain(ctx context.Context, agent, id, text string) (asked, error) {
	q, r := asked{text: text}, &reading{}
	path := "/api/v1/agents/" + agent + "/chat/sessions/" + id + "/messages"
	res, err := c.open(ctx, http.MethodPost, path, object{"message": text, "onDisconnect": "continue"})
	for err == nil || r.answer != "" {
		if err == nil {
			err = r.read(res.Body, 1+rand.IntN(30))
			_ = res.Body.Close()
		}
		if r.done || r.answer == "" || errors.Is(err, errDenied) {
			break
		}
		select {
		case <-ctx.Done():
			return asked{text: text, stored: true}, ctx.Err()
		case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond):
		}
		res, err = c.open(ctx, http.MethodGet, path+"/"+r.answer+"/events", lastEvent(r.last))
	}
	q.stored = r.answer != ""
	if !r.done {
		return q, err
	}
	if r.status != "partial" { // of a hub that was killed, or perhaps only suspended
		q.status, q.usage = r.status, r.usage
	}
	if q.status != "completed" {
		return q, fmt.Errorf("the answer is %q", r.status)
	}
	if received := strings.Join(append(r.complete, r.pending), ""); received != answerTo(text) {
		c.fault("the events of the answer to %s have the text %q", text, received)
	}
	return q, nil
}
