// Command stream serves the progress of a job as an event stream, and reads it with a client that
// connects again:
//
//	go run ./examples/stream &
//	go run ./examples/stream -read http://127.0.0.1:8083/
//	curl -N http://127.0.0.1:8083/
//
// Each connection ends after three events, and the client continues after the last one.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/sse"
)

const steps = 10 // of the job
func main() {
	addr := flag.String("addr", "127.0.0.1:8083", "address to listen on")
	url := flag.String("read", "", "address of a stream to read")
	flag.Parse()
	if *url == "" {
		log.Fatal(serve(*addr))
	}
	if err := read(context.Background(), *url); err != nil {
		log.Fatal(err)
	}
}

func serve(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: http.HandlerFunc(progress), ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

// progress sends the events after the last one that the client has received.
func progress(w http.ResponseWriter, r *http.Request) {
	last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // 0 for the first connection
	if last >= steps {
		w.WriteHeader(http.StatusNoContent) // there are no further events
		return
	}
	stream, err := sse.NewStream(w, sse.StreamConfig{Heartbeat: 10 * time.Second})
	if err != nil {
		http.Error(w, "streaming is not supported", http.StatusInternalServerError)
		return
	}
	defer stream.Close()
	for step := last + 1; step <= min(last+3, steps); step++ {
		data := fmt.Appendf(nil, `{"percent": %d}`, step*100/steps)
		if stream.Send(sse.Event{Type: "progress", ID: strconv.Itoa(step), Data: data, Retry: 10 * time.Millisecond}) != nil {
			return // the client has disconnected
		}
	}
}

func read(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	for event, err := range (sse.Source{Request: req, Client: http.DefaultClient}).Events(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", event.Type, event.Data)
	}
	return nil
}
