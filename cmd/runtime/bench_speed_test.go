package main_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"
)

// BenchmarkRunFullSpeed has 16 clients that execute runs of 200 tokens one after another at full
// speed. Upstream sends each response with one write.
func BenchmarkRunFullSpeed(b *testing.B) {
	speed{answer: "burst", clients: 16, runsEach: 75, warmups: 1, rounds: 7}.measure(b)
}

// BenchmarkRunShort has 16 clients that execute runs of five tokens: what a run costs, whatever its
// length is. The runtime responds with JSON to blocking runs. The proxy streams.
func BenchmarkRunShort(b *testing.B) {
	blocking := func(n int) []byte {
		return post("/v1/agents/anthropic/runs", fmt.Sprintf(`{"message":"Tell me a story. %s","runId":%q,"stream":false}`, mark(n), runID(n)))
	}
	subjects := []*subject{
		&limitDrained, {"blocking", startRuntime, blocking, blockingText}, {"blocking-metrics", startObserved(true, false), blocking, blockingText},
		&runtimeAnthropic, &runtimeTools, &proxy,
	}
	speed{answer: "short", clients: 16, runsEach: 150, warmups: 1, rounds: 7, tokens: shortTokens, subjects: subjects}.measure(b)
}

// BenchmarkRunPaced has 256 clients with one run of 200 tokens each, one token every 20 ms.
func BenchmarkRunPaced(b *testing.B) {
	speed{answer: "paced", clients: 256, runsEach: 1, rounds: 3, stagger: pace}.measure(b)
}

// BenchmarkRunObserved is RunFullSpeed with metrics and traces. The first server has neither, and
// is the limit of the others.
func BenchmarkRunObserved(b *testing.B) {
	subjects := []*subject{
		{"off", startObserved(false, false), runRequest("anthropic"), frame}, {"metrics", startObserved(true, false), runRequest("anthropic"), frame},
		{"traces", startObserved(false, true), runRequest("anthropic"), frame}, {"metrics-and-traces", startObserved(true, true), runRequest("anthropic"), frame},
	}
	speed{answer: "burst", clients: 16, runsEach: 75, warmups: 1, rounds: 15, subjects: subjects}.measure(b)
}

// BenchmarkRunProtocols is RunFullSpeed with the protocols of OpenAI. The first server has the
// native stream, and is the limit of the others. A run of the last one is a blocking chat
// completion.
func BenchmarkRunProtocols(b *testing.B) {
	subjects := append(protocols(), &subject{"chat-blocking", startRuntime, chatRequest(false), chatText})
	speed{answer: "burst", clients: 16, runsEach: 50, warmups: 1, rounds: 5, subjects: subjects}.measure(b)
}

// chatRequest returns a request for a chat completion.
func chatRequest(stream bool) func(int) []byte {
	return func(n int) []byte {
		return post("/openai/v1/chat/completions",
			fmt.Sprintf(`{"model":"anthropic","stream":%t,"messages":[{"role":"user","content":"Tell me a story. %s"}]}`, stream, mark(n)))
	}
}

// protocols are the native stream, and those of the protocols of OpenAI.
func protocols() []*subject {
	responses := func(n int) []byte {
		return post("/openai/v1/responses", fmt.Sprintf(`{"model":"anthropic","stream":true,"store":false,"input":"Tell me a story. %s"}`, mark(n)))
	}
	native := func(n int) []byte {
		return post("/v1/agents/anthropic/runs", fmt.Sprintf(`{"message":"Tell me a story. %s","store":false}`, mark(n)))
	}
	return []*subject{
		{"native", startRuntime, native, frame},
		{"chat", startRuntime, chatRequest(true), `"delta":{"content":"`},
		{"responses", startRuntime, responses, `"delta":"`},
	}
}

// speed measures the CPU time of each server per token.
type speed struct {
	answer   string
	clients  int
	runsEach int // runs of a client per round
	warmups  int // rounds that are not counted
	rounds   int
	stagger  time.Duration // the clients start within it: synchronous streams would send tokens in bursts
	tokens   int           // of a run; default: tokensPerRun
	subjects []*subject    // default: the servers that differ in what they do for a token
}

func (l speed) measure(b *testing.B) {
	b.Helper()
	subjects := l.subjects
	if subjects == nil {
		subjects = []*subject{&limitDrained, &runtimeAnthropic, &runtimeOpenAI, &runtimeTools, &runtimeDisk, &limitEach, &proxy}
	}
	l.tokens = cmp.Or(l.tokens, tokensPerRun)
	t := newBench(b, l.answer)
	children := make([]*child, len(subjects))
	conns := make([]connections, len(subjects))
	for i, s := range subjects {
		children[i] = s.start(b, t)
		b.Cleanup(children[i].stop)
	}
	cpu, rate := make([]sample, len(subjects)), make([]sample, len(subjects))
	runs := l.clients * l.runsEach
	for round := range l.warmups + l.rounds {
		for i, s := range subjects {
			if conns[i] == nil { // not before: servers give a new connection 10 s for its first request
				conns[i] = s.dialAll(b, children[i].addr, l.clients)
			}
			before, begin := children[i].cpu(b), time.Now()
			if err := l.round(round*runs, s, conns[i]); err != nil {
				b.Fatalf("%s: %v", s.name, err)
			}
			if round >= l.warmups {
				used := children[i].cpu(b) - before
				cpu[i] = append(cpu[i], float64(used.Nanoseconds())/1e3/float64(runs))
				rate[i] = append(rate[i], float64(runs)/time.Since(begin).Seconds())
			}
		}
	}
	for i, s := range subjects {
		var toLimit sample
		for round := range cpu[i] {
			toLimit = append(toLimit, cpu[i][round]/cpu[0][round])
		}
		report(b, s.name,
			metric{"us-cpu/token", cpu[i].median() / float64(l.tokens)}, metric{"us-cpu/run", cpu[i].median()}, metric{"%-spread", cpu[i].spread()},
			metric{"x-limit", toLimit.median()}, metric{"runs/s", rate[i].median()})
	}
}

// round executes the runs of one round, numbered from first.
func (l speed) round(first int, s *subject, conns connections) error {
	return side(l.clients, func(i int) error {
		if l.stagger > 0 {
			<-time.After(time.Duration(i) * l.stagger / time.Duration(l.clients))
		}
		for run := range l.runsEach {
			n := first + i*l.runsEach + run
			tokens := l.tokens
			if s.token == blockingText || s.token == chatText {
				tokens = 1
			}
			if err := conns[i].run(s.request(n), tokens); err != nil {
				return fmt.Errorf("run %d: %w", n, err)
			}
		}
		return nil
	})
}
