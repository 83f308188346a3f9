package main_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// BenchmarkFirstToken makes one run at a time, of which upstream sends the first token at once
// and the second one 5 ms later, and tells by how much the first one is later than the median of
// upstream itself.
func BenchmarkFirstToken(b *testing.B) {
	const warmups, rounds = 20, 200
	subjects := []*subject{&direct, &runtimeAnthropic, &runtimeOpenAI, &limitDrained, &limitEach, &proxy}
	t := newBench(b, "first")
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
		for _, i := range rand.Perm(len(subjects)) { // whatever was measured before leaves its mark
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
		report(b, s.name, metric{"ms-added-p50", took[i].median() - took[0].median()},
			metric{"ms-added-p99", took[i].quantile(0.99) - took[0].median()},
			metric{"ms-total-p50", took[i].median()})
	}
}

// BenchmarkStart starts each server and asks it without a pause until it says that it is ready.
func BenchmarkStart(b *testing.B) {
	const rounds = 21
	subjects := []*subject{&runtimeAnthropic, &limitDrained, &proxy}
	t := newBench(b, "first")
	took := make([]sample, len(subjects))
	for range rounds {
		for i, s := range subjects {
			begin := time.Now()
			c := s.start(b, t)
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
