package main_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// BenchmarkFirstToken makes one run at a time, of which upstream sends the first token at once
// and the second one 5 ms later, and tells by how much the first one is later than from upstream
// itself.
func BenchmarkFirstToken(b *testing.B) {
	const warmups, rounds = 20, 200
	subjects := []*subject{&direct, &runtimeAnthropic, &runtimeOpenAI, &limitDrained, &limitEach, &proxy}
	on := splitCores(b)
	upstream := startUpstream(b, on, "first")
	conns := make([]*connection, len(subjects))
	for i, s := range subjects {
		addr := upstream.addr
		if s.start != nil {
			c := s.start(b, &on.server, upstream.addr)
			b.Cleanup(c.stop)
			addr = c.addr
		}
		conns[i] = s.dialAll(b, addr, 1)[0]
	}
	took := make([]sample, len(subjects))
	for round := range warmups + rounds {
		for i, s := range subjects {
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
		report(b, s.name, metric{"ms-added-p50", took[i].median() - took[0].median()},
			metric{"ms-added-p99", took[i].quantile(0.99) - took[0].quantile(0.99)},
			metric{"ms-total-p50", took[i].median()})
	}
}

// BenchmarkStart starts each server and asks it without a pause until it says that it is ready.
func BenchmarkStart(b *testing.B) {
	const rounds = 21
	subjects := []*subject{&runtimeAnthropic, &limitDrained, &proxy}
	on := splitCores(b)
	upstream := startUpstream(b, on, "first")
	took := make([]sample, len(subjects))
	if _, err := command(); err != nil { // not to be timed
		b.Fatal(err)
	}
	for range rounds {
		for i, s := range subjects {
			begin := time.Now()
			c := s.start(b, &on.server, upstream.addr)
			err := get(c.addr, "/health/ready")
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

// get asks once.
func get(addr, path string) error {
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get("http://" + addr + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
