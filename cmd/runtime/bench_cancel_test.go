package main_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// BenchmarkCancel measures the time from a cancel until upstream detects that its connection is
// closed, which is when a model would stop: for the endpoint, and for a client that disconnects.
func BenchmarkCancel(b *testing.B) {
	const alone, together, rounds = 50, 256, 15
	ways := []struct {
		name     string
		subject  *subject
		endpoint bool
	}{
		{"runtime-endpoint", &runtimeAnthropic, true},
		{"runtime-disconnect", &runtimeAnthropic, false},
		{"runtime-disk-endpoint", &runtimeDisk, true},
		{"limit-disconnect", &limitDrained, false},
		{"proxy-disconnect", &proxy, false},
	}
	one, many := make([]sample, len(ways)), make([]sample, len(ways))
	t, next := newBench(b, "hang"), 0
	for i, way := range ways {
		server := way.subject.start(b, t)
		c := &canceller{subject: way.subject, endpoint: way.endpoint, server: server.addr, upstream: t.upstream.addr, next: next}
		for range alone {
			one[i] = append(one[i], c.cancel(b, 1)...)
		}
		for range rounds {
			many[i] = append(many[i], c.cancel(b, together).quantile(0.99))
		}
		c.controls.close()
		server.stop()
		next = c.next
	}
	for i, way := range ways {
		report(b, way.name, metric{"ms-alone-p50", one[i].median()}, metric{"ms-alone-p99", one[i].quantile(0.99)},
			metric{"ms-256-p99", many[i].median()}, metric{"%-spread", many[i].spread()})
	}
}

type canceller struct {
	subject  *subject
	endpoint bool // otherwise the client closes its connection
	server   string
	upstream string
	controls connections // reused for the cancel requests
	next     int         // number of the next run
}

// cancel opens n streams, cancels all of them after each has received its tokens, and returns how
// long upstream needed to detect each close, in milliseconds since the moment before the first
// cancel.
func (c *canceller) cancel(b *testing.B, n int) sample {
	b.Helper()
	streams := make(connections, n)
	first := c.next
	c.next += n
	err := side(n, func(i int) (err error) {
		streams[i], err = c.subject.open(c.server, first+i)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for c.endpoint && len(c.controls) < n {
		control, err := c.subject.dial(c.server)
		if err != nil {
			b.Fatal(err)
		}
		c.controls = append(c.controls, control)
	}

	// The request to upstream is made before, so that afterwards only cancelling uses its core.
	observer, err := direct.dial(c.upstream)
	if err != nil {
		b.Fatal(err)
	}
	defer observer.close()
	if err := observer.send(fmt.Appendf(nil, "GET /ends?first=%d&count=%d HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", first,
		n)); err != nil {
		b.Fatal(err)
	}
	release, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- side(n, func(i int) error {
			request := cancelRequest(first + i)
			<-release
			if !c.endpoint {
				return streams[i].conn.Close()
			}
			if err := c.controls[i].send(request); err != nil {
				return fmt.Errorf("cancel: %w", err)
			}
			if err := c.controls[i].finish(); err != nil {
				return fmt.Errorf("cancel: %w", err)
			}
			return streams[i].finish()
		})
	}()
	begin := time.Now()
	close(release)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	var ends []int64
	if err := json.NewDecoder(observer.body).Decode(&ends); err != nil {
		b.Fatal(err)
	}
	streams.close()
	var took sample
	for _, at := range ends {
		took = append(took, float64(at-begin.UnixNano())/1e6)
	}
	return took
}
