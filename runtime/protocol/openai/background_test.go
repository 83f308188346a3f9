package openai_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/protocol/openai"
	"github.com/seed93082962/agenthost/runtime/run"
)

// show reads a response until it has a status. A server that did not start it finds it when its
// conversation is stored, which may be after the response to its client.
func (b *bench) show(id any, status string) map[string]any {
	b.t.Helper()
	var r map[string]any
	require.Eventually(b.t, func() bool {
		res := b.do("GET", "/responses/"+id.(string), "")
		r = res.json
		return res.status == http.StatusOK && r["status"] == status
	}, patience, time.Millisecond, "%v", &r)
	fits(b.t, "ResponseResource", r)
	return r
}

// A background response continues without its request, and is read while and after it is in
// progress.
func TestBackground(t *testing.T) {
	proceed := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("one "), modeltest.Gate(proceed), modeltest.Text("two")))
	b := serveWith(t, up, openai.Config{MaxBackground: 1})
	res, r := b.respond(`{"model":"helper","input":"a","background":true}`)
	require.Equal(t, "in_progress", r["status"], res.body)
	require.Equal(t, true, r["background"])
	require.Equal(t, r["id"], b.show(r["id"], "in_progress")["id"])
	res, _ = b.respond(`{"model":"helper","input":"a","background":true}`)
	require.Equal(t, http.StatusTooManyRequests, res.status, "there is one already")
	close(proceed)
	r = b.show(r["id"], "completed")
	require.Equal(t, "one two", said(r))
	require.Equal(t, true, r["background"])
	require.Eventually(t, func() bool { return b.memory.Load() == 0 }, patience, time.Millisecond)
	res, _ = b.respond(`{"model":"other","input":"a","background":true}`)
	require.Equal(t, http.StatusNotFound, res.status, "an error of the start is that of the request")
	res, _ = b.respond(`{"model":"helper","input":"a","background":true}`, "Te", "trailers")
	require.Equal(t, http.StatusBadRequest, res.status, "the proxy could not count its tokens")
	res = b.do("GET", "/responses/"+r["id"].(string)+"?stream=true", "")
	require.Equal(t, "stream", errorOf(t, res.json)["param"], "it has no stream")
}

// The stream of a background response is read again from any event, by a client that has lost it.
func TestBackgroundStream(t *testing.T) {
	proceed := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("one "), modeltest.Gate(proceed), modeltest.Text("two")))
	b := serveWith(t, up, openai.Config{})
	ctx, leave := context.WithCancel(t.Context())
	res := b.open(ctx, "POST", "/responses", `{"model":"helper","input":"a","background":true,"stream":true}`)
	lines := bufio.NewScanner(res.Body)
	id := ""
	for lines.Scan() {
		if i := strings.Index(lines.Text(), `"resp_bg_`); i >= 0 && id == "" {
			id, _, _ = strings.Cut(lines.Text()[i+1:], `"`)
		}
		if strings.Contains(lines.Text(), `"delta":"one "`) {
			break
		}
	}
	leave()
	res.Body.Close()
	require.Equal(t, "in_progress", b.show(id, "in_progress")["status"], "the run continues")
	close(proceed)
	whole := b.do("GET", "/responses/"+id+"?stream=true", "")
	require.True(t, whole.done)
	for i, event := range whole.events {
		fits(t, "Event_"+event["type"].(string), event)
		require.EqualValues(t, i, event["sequence_number"])
	}
	r := whole.events[len(whole.events)-1]["response"].(map[string]any)
	require.Equal(t, "one two", said(r))
	require.Equal(t, r["output"], replayed(t, whole.events))
	require.Equal(t, r["output"], b.show(id, "completed")["output"])
	for _, after := range []int{0, 4, 99} {
		rest := b.do("GET", fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", id, after), "")
		require.True(t, rest.done)
		require.Equal(t, whole.events[min(after+1, len(whole.events)):], append([]map[string]any{}, rest.events...))
	}
	bad := b.do("GET", "/responses/"+id+"?stream=true&starting_after=x", "")
	require.Equal(t, "starting_after", errorOf(t, bad.json)["param"])
}

// Only background responses are cancelled, at any replica.
func TestBackgroundCancel(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("one "), modeltest.Wait(time.Hour))))
	bus, start := run.NewMemoryBus(), onDisk(t, up)
	one, two := start(bus), start(bus)
	for _, b := range []*bench{one, two} {
		_, r := one.respond(`{"model":"helper","input":"a","background":true}`)
		path := "/responses/" + r["id"].(string)
		require.Equal(t, "in_progress", two.show(r["id"], "in_progress")["status"])
		for range 2 {
			res := b.do("POST", path+"/cancel", "")
			require.Equal(t, http.StatusOK, res.status, res.body)
			fits(t, "ResponseResource", res.json)
			require.Equal(t, "cancelled", res.json["status"])
		}
		one.show(r["id"], "cancelled")
		two.show(r["id"], "cancelled")
	}
	for id, status := range map[string]int{"x": 404, "resp_" + strings.Repeat("0", 32) + "s": 400, "resp_bg_" + strings.Repeat("0", 32) + "s": 404} {
		res := one.do("POST", "/responses/"+id+"/cancel", "")
		require.Equal(t, status, res.status, res.body)
		fits(t, "ErrorResponse", res.json)
	}
}

// A response whose server has ended is failed.
func TestBackgroundThatIsLost(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("one "), modeltest.Wait(time.Hour)))
	start := onDisk(t, up)
	b := start()
	_, r := b.respond(`{"model":"helper","input":"a","background":true}`)
	require.NoError(t, b.rt.Close())
	failed := start().show(r["id"], "failed")
	require.Equal(t, "server_error", failed["error"].(map[string]any)["code"])
	require.Nil(t, failed["completed_at"])
}
