package chaos_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	random "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/sse"
)

// errLeft is the error of a caller that has left, as it should.
var errLeft = errors.New("the caller has left")

// spend begins a run whose end its caller does not receive, or one whose report is long.
func (c *client) spend(ctx context.Context, _ *state) {
	ways := []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"answers left", func(ctx context.Context) error { return c.leaveChat(ctx, endless, lastWord, false) }},
		{"answers whose chat is deleted", func(ctx context.Context) error { return c.leaveChat(ctx, endless, lastWord, true) }},
		{"runs left", func(ctx context.Context) error { return c.leaveRun(ctx, object{"message": question0(endless)}) }},
		{"runs with a time", func(ctx context.Context) error {
			return c.leaveRun(ctx, object{"message": question0(endless), "timeoutMs": 500})
		}},
		{"blocking runs with a time", func(ctx context.Context) error {
			return c.leaveRun(ctx, object{"message": question0(endless), "timeoutMs": 500, "stream": false})
		}},
		{"runs with long reports", func(ctx context.Context) error { return c.leaveRun(ctx, object{"message": question0(tasks)}) }},
		{"answers with thinking beside", func(ctx context.Context) error { return c.leaveChat(ctx, "chat-2", "event: done", false) }},
		{"unfinished bodies", c.unfinished},
	}
	way := ways[random.IntN(len(ways))]
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := way.do(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, errLeft) {
		err = nil
	}
	c.count(way.name, err)
}

func question0(kind string) string { return kind + rand.Text() + "#0" }

// leaveChat sends a question in a new chat, and leaves when it has received a word. It may delete
// the chat before.
func (c *client) leaveChat(ctx context.Context, kind, word string, remove bool) error {
	user := c.users[random.IntN(len(c.users))]
	chat, err := user.newChat(ctx, payingAgent, kind)
	if err != nil {
		return err
	}
	path := "/api/v1/agents/" + payingAgent + "/chat/sessions/" + chat
	c.mu.Lock()
	if remove {
		c.loose[group{payingAgent, user.user}]++
	} else {
		c.asked[conversation{payingAgent, user.user, chat}] = true
	}
	c.mu.Unlock()
	res, err := user.open(ctx, http.MethodPost, path+"/messages", object{"message": question0(kind)})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = readUntil(res.Body, word)
	if remove {
		// It may be deleted although the response is lost.
		err = errors.Join(err, eventually(context.WithoutCancel(ctx), patience, func(ctx context.Context) error {
			return user.call(ctx, http.MethodDelete, path, nil, nil)
		}))
	}
	return err
}

// readUntil reads a body up to a word.
func readUntil(body io.Reader, word string) error {
	var seen strings.Builder
	buf := make([]byte, 4<<10)
	for {
		n, err := body.Read(buf)
		seen.Write(buf[:n])
		if strings.Contains(seen.String(), word) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: without %q", err, word)
		}
	}
}

// leaveRun runs the paying agent at /runtime, and leaves after the last word, or at the end.
func (c *client) leaveRun(ctx context.Context, body object) error {
	c.mu.Lock()
	c.loose[group{agent: payingAgent}]++
	c.mu.Unlock()
	res, err := c.open(ctx, http.MethodPost, "/runtime/"+payingAgent+"/v1/agents/"+payingAgent+"/runs", body)
	if err != nil {
		if body["stream"] == false && strings.Contains(err.Error(), `"state":"failed"`) {
			return errLeft // the response to a run whose time has ended
		}
		return err
	}
	defer res.Body.Close()
	long := strings.HasPrefix(body["message"].(string), tasks)
	if !long {
		return readUntil(res.Body, lastWord)
	}
	for event, err := range sse.NewDecoder(res.Body).Events() {
		if err != nil {
			return err
		}
		if event.Type == "result" && strings.Contains(resultOf(event.Data), lastWord) {
			return nil
		}
	}
	return errors.New("the run has no result")
}

// unfinished sends the beginning of a request that would begin a run.
func (c *client) unfinished(ctx context.Context) error {
	address := strings.TrimPrefix(c.urls[random.IntN(len(c.urls))], "http://")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(conn, "POST /runtime/%s/v1/agents/%[1]s/runs HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nContent-Length: 100\r\n\r\n{", payingAgent, address, c.keys[payingAgent])
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // nothing comes
	}
	if err, ok := errors.AsType[net.Error](err); ok && err.Timeout() {
		return nil
	}
	return err
}
