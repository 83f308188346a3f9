package js_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/quickjs"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

const wordCount = `
export default {
	name: "word_count", description: "Counts the words of a text.",
	inputSchema: {type: "object", properties: {text: {type: "string"}}},
	call({text}) { return String(text.split(/\s+/).filter(Boolean).length) },
}`

// BenchmarkCall measures one call of a tool from input to output, and other ways to do the same
// work.
func BenchmarkCall(b *testing.B) {
	input := json.RawMessage(`{"text":"the quick brown fox jumps over the lazy dog"}`)

	measure := func(b *testing.B, pause time.Duration, do func() string) {
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			answer := do()
			took = append(took, time.Since(began))
			require.Equal(b, "9", answer)
			if pause > 0 {
				b.StopTimer()
				<-time.After(pause)
				b.StartTimer()
			}
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2]), "p50-ns/op")
		b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns/op")
	}
	worker := func(b *testing.B, pause time.Duration) {
		subject := load(b, newHost(b, js.Config{Workers: 2}), wordCount)
		measure(b, pause, func() string {
			result, err := subject.Call(b.Context(), tool.Call{Input: input})
			require.NoError(b, err)
			return result.Output
		})
	}
	b.Run("now and then", func(b *testing.B) { worker(b, 3*time.Millisecond) }) // a worker has an engine ready
	b.Run("back to back", func(b *testing.B) { worker(b, 0) })                  // a worker may have none
	b.Run("bare engine in this process", func(b *testing.B) {                   // new for each call, without prelude, limits or end
		measure(b, 0, func() string {
			vm, err := quickjs.NewVM()
			require.NoError(b, err)
			defer vm.Close()
			_, err = vm.Eval(`function call({text}) { return String(text.split(/\s+/).filter(Boolean).length) }`, quickjs.EvalGlobal)
			require.NoError(b, err)
			answer, err := vm.Call("call", input)
			require.NoError(b, err)
			return answer.(string)
		})
	})
	b.Run("node started for it", func(b *testing.B) {
		measure(b, 0, func() string {
			out, err := exec.Command("node", "-e", `const {text} = JSON.parse(process.argv[1])
				process.stdout.write(String(text.split(/\s+/).filter(Boolean).length))`, string(input)).Output()
			require.NoError(b, err)
			return string(out)
		})
	})
}
