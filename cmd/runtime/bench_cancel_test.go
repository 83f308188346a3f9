package main_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// BenchmarkCancel measures the time from a cancel until upstream detects that its connection is
// closed, which is when a model would stop: for the endpoint, and for a client that disconnects. A
// client of the endpoint also waits for the end of its stream, which has the event cancelled and
// comes when the session is stored. The rounds of many cancels alternate.
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
	t, next := newBench(b, "hang"), 0
	cancellers := make([]*canceller, len(ways))
	for i, way := range ways {
		server := way.subject.start(b, t)
		b.Cleanup(server.stop)
		cancellers[i] = &canceller{subject: way.subject, endpoint: way.endpoint, server: server.addr, upstream: t.upstream.addr, next: &next}
		b.Cleanup(func() { cancellers[i].controls.close() })
	}
	one, many, ends := make([]sample, len(ways)), make([]sample, len(ways)), make([]sample, len(ways))
	for i, c := range cancellers {
		for range alone {
			closed, _ := c.cancel(b, 1)
			one[i] = append(one[i], closed...)
		}
	}
	for range rounds {
		for i, c := range cancellers {
			closed, ended := c.cancel(b, together)
			many[i] = append(many[i], closed.quantile(0.99))
			ends[i] = append(ends[i], ended.quantile(0.99))
		}
	}
	for i, way := range ways {
		metrics := []metric{{"ms-alone-p50", one[i].median()}, {"ms-alone-p99", one[i].quantile(0.99)},
			{"ms-256-p99", many[i].median()}, {"%-spread", many[i].spread()}}
		if way.endpoint {
			metrics = append(metrics, metric{"ms-256-event-p99", ends[i].median()})
		}
		report(b, way.name, metrics...)
	}
}

type canceller struct {
	subject  *subject
	endpoint bool // otherwise the client closes its connection
	server   string
	upstream string
	controls connections // reused for the cancel requests
	next     *int        // number of the next run
}

// cancel opens n streams, and cancels all of them after each has received its tokens. It returns
// when upstream detected each close and, for the endpoint, when each stream ended, in milliseconds
// since the moment before the first cancel.
func (c *canceller) cancel(b *testing.B, n int) (closed, ended sample) {
	b.Helper()
	streams := make(connections, n)
	first := *c.next
	*c.next += n
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
	var begin time.Time
	if c.endpoint {
		ended = make(sample, n)
	}
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
			err := streams[i].finish()
			ended[i] = float64(time.Since(begin).Nanoseconds()) / 1e6
			return err
		})
	}()
	begin = time.Now()
	close(release)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	var ends []int64
	if err := json.NewDecoder(observer.body).Decode(&ends); err != nil {
		b.Fatal(err)
	}
	streams.close()
	for _, at := range ends {
		closed = append(closed, float64(at-begin.UnixNano())/1e6)
	}
	return closed, ended
}
