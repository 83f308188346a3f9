package main_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// BenchmarkFirstToken executes one run at a time, of which upstream sends the first token
// immediately and the second one 5 ms later. It reports how much later the first token arrives than
// the median of a direct request to upstream, which takes time to check the tools of a request.
func BenchmarkFirstToken(b *testing.B) {
	const warmups, rounds = 20, 200
	t := newBench(b, "first")
	withTools := directTools(b, t)
	subjects := []*subject{
		&direct, withTools, &runtimeAnthropic, &runtimeOpenAI, &runtimeTools, &runtimeDisk, &limitDrained, &limitEach, &proxy,
	}
	conns := make([]*connection, len(subjects))
	for i, s := range subjects {
		addr := t.upstream.addr
		if s.start != nil {
			c := s.start(b, t)
			b.Cleanup(c.stop)
			addr = c.addr
		}
		conns[i] = s.dialAll(b, addr, 1)[0]
	}
	took := make([]sample, len(subjects))
	for round := range warmups + rounds {
		for _, i := range rand.Perm(len(subjects)) { // earlier measurements affect later ones
			s := subjects[i]
			request, begin := s.request(round), time.Now()
			err := conns[i].send(request)
			if err == nil {
				err = conns[i].await(1)
			}
			elapsed := time.Since(begin)
			if err == nil {
				err = conns[i].finish()
			}
			if err != nil {
				b.Fatalf("%s: %v", s.name, err)
			}
			if round >= warmups {
				took[i] = append(took[i], elapsed.Seconds()*1e3)
			}
		}
	}
	for i, s := range subjects {
		upstream := took[0].median()
		if s == &runtimeTools {
			upstream = took[1].median()
		}
		report(b, s.name, metric{"ms-added-p50", took[i].median() - upstream},
			metric{"ms-added-p99", took[i].quantile(0.99) - upstream},
			metric{"ms-total-p50", took[i].median()})
	}
}

// BenchmarkCompletionsAtARate starts 1,000 blocking chat completions of five tokens a second, and
// reports how much later than direct requests to upstream at the same rate they end. A request that
// has to wait for a connection is late from its time on.
func BenchmarkCompletionsAtARate(b *testing.B) {
	const clients, total, each = 128, 5000, time.Millisecond
	t := newBench(b, "short")
	var upstream sample
	for _, s := range []*subject{&direct, &proxy, {"chat-blocking", startRuntime, chatRequest(false), chatText}} {
		addr := t.upstream.addr
		if s.start != nil {
			c := s.start(b, t)
			b.Cleanup(c.stop)
			addr = c.addr
		}
		conns := s.dialAll(b, addr, clients)
		took := make(sample, total)
		begin := time.Now().Add(100 * time.Millisecond)
		err := side(clients, func(first int) error {
			for n := first; n < total; n += clients {
				at, request := begin.Add(time.Duration(n)*each), s.request(n)
				<-time.After(time.Until(at))
				err := conns[first].send(request)
				if err == nil {
					err = conns[first].finish()
				}
				if err != nil {
					return err
				}
				took[n] = time.Since(at).Seconds() * 1e3
			}
			return nil
		})
		if err != nil {
			b.Fatalf("%s: %v", s.name, err)
		}
		if s == &direct {
			upstream = took
		}
		report(b, s.name, metric{"ms-added-p50", took.median() - upstream.median()},
			metric{"ms-added-p99", took.quantile(0.99) - upstream.quantile(0.99)})
	}
}

// directTools sends the runtime's request for an agent with tools directly to upstream.
func directTools(b *testing.B, t *bench) *subject {
	b.Helper()
	server := runtimeTools.start(b, t)
	defer server.stop()
	c := runtimeTools.dialAll(b, server.addr, 1)[0]
	err := c.send(runtimeTools.request(0))
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		b.Fatal(err)
	}
	body, err := get(t.upstream.addr, "/last")
	if err != nil {
		b.Fatal(err)
	}
	return &subject{"direct-tools", nil, func(int) []byte { return post("/v1/messages", string(body), modelHeader...) }, delta}
}

// BenchmarkStart starts each server and polls it without pauses until it is ready.
func BenchmarkStart(b *testing.B) {
	const rounds = 21
	subjects := []*subject{&runtimeAnthropic, &limitDrained, &proxy}
	t := newBench(b, "first")
	took := make([]sample, len(subjects))
	for range rounds {
		for i, s := range subjects {
			begin := time.Now()
			c := s.start(b, t)
			_, err := get(c.addr, "/health/ready")
			took[i] = append(took[i], time.Since(begin).Seconds()*1e3)
			c.stop()
			if err != nil {
				b.Fatalf("%s: %v", s.name, err)
			}
		}
	}
	for i, s := range subjects {
		report(b, s.name, metric{"ms-ready-p50", took[i].median()}, metric{"ms-ready-p90", took[i].quantile(0.9)})
	}
}

// get sends one request.
func get(addr, path string) ([]byte, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get("http://" + addr + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}
