package main_test

import "testing"

// BenchmarkMemoryPerStream opens 1000 streams, sixteen at a time, until each has received ten
// tokens and waits for the next, and measures the growth of the server's memory.
func BenchmarkMemoryPerStream(b *testing.B) {
	measureMemory(b, &runtimeAnthropic, &runtimeOpenAI, &runtimeTools, &limitDrained, &limitEach, &proxy)
}

// BenchmarkMemoryOfProtocols is MemoryPerStream with the protocols of OpenAI.
func BenchmarkMemoryOfProtocols(b *testing.B) { measureMemory(b, protocols()...) }

func measureMemory(b *testing.B, subjects ...*subject) {
	b.Helper()
	const streams, openers, rounds = 1000, 16, 3
	t := newBench(b, "hang")
	idle, each := make([]sample, len(subjects)), make([]sample, len(subjects))
	for range rounds {
		for i, s := range subjects {
			// Each measurement uses a new process, because memory is returned late.
			c := s.start(b, t)
			if _, err := get(c.addr, "/health/ready"); err != nil {
				b.Fatal(err)
			}
			before := c.memory(b)
			conns := make(connections, streams)
			err := side(openers, func(first int) (err error) {
				for n := first; n < streams && err == nil; n += openers {
					conns[n], err = s.open(c.addr, n)
				}
				return err
			})
			if err != nil {
				b.Fatalf("%s: %v", s.name, err)
			}
			idle[i] = append(idle[i], before/1024)
			each[i] = append(each[i], (c.memory(b)-before)/streams)
			c.stop()
			conns.close()
		}
	}
	for i, s := range subjects {
		report(b, s.name, metric{"KiB/stream", each[i].median()}, metric{"%-spread", each[i].spread()},
			metric{"MiB-idle", idle[i].median()})
	}
}
