package sse_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/sse"
)

func ExampleStream() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		stream, err := sse.NewStream(w, sse.StreamConfig{})
		if err != nil {
			http.Error(w, "streaming is not supported", http.StatusInternalServerError)
			return
		}
		defer stream.Close()
		for _, word := range []string{"hello", "world"} {
			if err := stream.Send(sse.Event{Type: "token", Data: []byte(word)}); err != nil {
				return // the client has disconnected or does not read
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(handler))
	defer server.Close()

	res, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(res.Header.Get("Content-Type"))
	fmt.Print(string(body))
	// Output:
	// text/event-stream; charset=utf-8
	// event: token
	// data: hello
	//
	// event: token
	// data: world
}

// Upstream events are forwarded, and flushed only if no further event is buffered.
func ExampleDecoder_Buffered() {
	upstream := strings.NewReader("data: one\n\ndata: two\n\n")
	w := httptest.NewRecorder()
	stream, err := sse.NewStream(w, sse.StreamConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()

	events := sse.NewDecoder(upstream)
	for event, err := range events.Events() {
		if err != nil {
			fmt.Println(err)
			return
		}
		if events.Buffered() {
			err = stream.Queue(event)
		} else {
			err = stream.Send(event)
		}
		if err != nil {
			return
		}
	}
	fmt.Print(w.Body.String())
	// Output:
	// data: one
	//
	// data: two
}

// An encoder that appends writes into the stream's buffer.
func ExampleStream_QueueFunc() {
	w := httptest.NewRecorder()
	stream, err := sse.NewStream(w, sse.StreamConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	progress := 42
	_ = stream.QueueFunc(sse.Event{Type: "progress"}, func(dst []byte) ([]byte, error) {
		dst = append(dst, `{"percent":`...)
		dst = strconv.AppendInt(dst, int64(progress), 10)
		return append(dst, '}'), nil
	})
	_ = stream.Close()
	fmt.Print(w.Body.String())
	// Output:
	// event: progress
	// data: {"percent":42}
}

func ExampleDecoder() {
	body := strings.NewReader(": welcome\n\nevent: token\ndata: hello\n\nid: 7\ndata: two\ndata: lines\n\n")
	events := sse.NewDecoder(body)
	for event, err := range events.Events() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q %q\n", event.Type, event.Data)
	}
	fmt.Println("last event ID:", events.LastEventID())
	// Output:
	// "token" "hello"
	// "" "two\nlines"
	// last event ID: 7
}

func ExampleEvent_Append() {
	buf, err := sse.Event{Data: []byte("hello")}.Append(nil)
	fmt.Printf("%q %v\n", buf, err)
	// Output: "data: hello\n\n" <nil>
}
