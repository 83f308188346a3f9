package compare_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// load is the speed of responses and the operation of a benchmark.
type load struct {
	name   string
	tokens int           // of a response
	calls  int           // concurrently
	pace   time.Duration // between tokens; 0 sends each response with one write
}

var loads = []load{
	{name: "burst", tokens: 200, calls: 1},
	{name: "paced", tokens: 50, calls: 64, pace: 20 * time.Millisecond},
}

func (l load) reply() modeltest.Reply {
	words := []string{"The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", ".\n"}
	list := make([]string, l.tokens)
	for i := range list {
		list[i] = words[i%len(words)]
	}
	if l.pace == 0 {
		return modeltest.Burst(modeltest.Text(list...))
	}
	return modeltest.Stream(modeltest.Pace(l.pace), modeltest.Text(list...))
}

// caller makes one streamed call and returns the number of text increments.
type caller func(ctx context.Context) (tokens int, err error)

// client is a way of calling a model.
type client struct {
	name string
	open func(baseURL string) (caller, error)
}

// measure runs each client under each load. Both units include the whole client, with connection
// and call: cpu-ns/token by the process's clock, allocs/token on its heap.
func measure(b *testing.B, p modeltest.Protocol, clients []client) {
	address := startUpstream(b)
	for _, l := range loads {
		for _, c := range clients {
			b.Run(l.name+"/"+c.name, func(b *testing.B) {
				call, err := c.open(address + "/" + l.name + "/" + string(p))
				if err != nil {
					b.Fatal(err)
				}
				if err := l.run(b.Context(), call); err != nil { // connects
					b.Fatal(err)
				}
				cpu, allocs := used()
				for b.Loop() {
					if err := l.run(b.Context(), call); err != nil {
						b.Fatal(err)
					}
				}
				cpuAfter, allocsAfter := used()
				tokens := float64(b.N * l.calls * l.tokens)
				b.ReportMetric(float64((cpuAfter-cpu).Nanoseconds())/tokens, "cpu-ns/token")
				b.ReportMetric(float64(allocsAfter-allocs)/tokens, "allocs/token")
			})
		}
	}
}

// run makes the calls of one operation. They start within one pace: synchronous streams would send
// tokens in bursts.
func (l load) run(ctx context.Context, call caller) error {
	one := func() error {
		n, err := call(ctx)
		if err == nil && n != l.tokens {
			err = fmt.Errorf("got %d tokens of %d", n, l.tokens)
		}
		return err
	}
	if l.calls == 1 {
		return one()
	}
	errs := make(chan error, l.calls)
	for i := range l.calls {
		time.AfterFunc(time.Duration(i)*l.pace/time.Duration(l.calls), func() { errs <- one() })
	}
	var first error
	for range l.calls {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// httpClient is shared by all clients, so that only the code above it differs. With two idle
// connections, the default of net/http and of the SDKs, most calls of the paced load would need a
// new connection.
func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}}
}

func used() (cpu time.Duration, allocs uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cpuTime(), m.Mallocs
}

// agenthost calls through an adapter of this module.
func agenthost(m model.Model) caller {
	return func(ctx context.Context) (n int, err error) {
		for part, err := range m.Stream(ctx, &model.Request{Model: "m", MaxOutputTokens: 1024,
			Messages: []model.Message{model.UserText(prompt)}}) {
			if err != nil {
				return n, err
			}
			if part.Kind == model.KindText {
				n++
			}
		}
		return n, nil
	}
}

const prompt = "Tell me about the fox."
