package main_test

import "testing"

// BenchmarkMemoryPerStream opens 1000 streams at once, each of which has got ten tokens and waits
// for the next, and reads how much memory the server has more than before.
func BenchmarkMemoryPerStream(b *testing.B) {
	const streams, rounds = 1000, 3
	subjects := []*subject{&runtimeAnthropic, &runtimeOpenAI, &limitDrained, &limitEach, &proxy}
	on := splitCores(b)
	upstream := startUpstream(b, on, "hang")
	idle, each := make([]sample, len(subjects)), make([]sample, len(subjects))
	for range rounds {
		for i, s := range subjects {
			// A new process each time: memory that was once used is given back late.
			c := s.start(b, &on.server, upstream.addr)
			if err := get(c.addr, "/health/ready"); err != nil {
				b.Fatal(err)
			}
			before := c.memory(b)
			conns := make([]*connection, streams)
			err := side(streams, func(n int) (err error) {
				if conns[n], err = s.dial(c.addr); err != nil {
					return err
				}
				if err := conns[n].send(s.request(n)); err != nil {
					return err
				}
				return conns[n].await(openTokens)
			})
			if err != nil {
				b.Fatalf("%s: %v", s.name, err)
			}
			idle[i] = append(idle[i], before/1024)
			each[i] = append(each[i], (c.memory(b)-before)/streams)
			c.stop()
			for _, conn := range conns {
				conn.close()
			}
		}
	}
	for i, s := range subjects {
		report(b, s.name, metric{"KiB/stream", each[i].median()}, metric{"%-spread", each[i].spread()},
			metric{"MiB-idle", idle[i].median()})
	}
}
