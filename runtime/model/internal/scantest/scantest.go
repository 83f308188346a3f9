// Package scantest tests an adapter with generated streams: its scanner and encoding/json must read
// the same.
package scantest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

// Generator generates the JSON of events.
type Generator struct{ *rand.Rand }

// One returns a field with one of the values. An empty value leaves out the field, an empty name
// returns the value.
func (g Generator) One(name string, values []string) string {
	v := values[g.IntN(len(values))]
	if v != "" && name != "" {
		v = `"` + name + `":` + v
	}

	return v
}

// Object joins the fields that are not empty, in any order.
func (g Generator) Object(fields ...string) string {
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	var out []string
	for _, f := range fields {
		if f != "" {
			out = append(out, f)
		}
	}

	return "{" + strings.Join(out, ",") + "}"
}

// streams is the number of streams that Run decodes.
const streams = 5_000

// Run decodes streams of the events that event generates, with the scanner and only with
// encoding/json. It fails if the results differ, if a response that is not an error is incomplete,
// or if fewer than complete streams are responses.
func Run(
	t *testing.T, complete int, event func(Generator) string, decode func(events []string, scanner bool) ([]model.Part, error),
) {
	t.Helper()
	g := Generator{rand.New(rand.NewPCG(1, 2))} // the same streams each time
	for range streams {
		events := make([]string, 1+g.IntN(6))
		for i := range events {
			events[i] = event(g)
		}

		fast, fastErr := decode(events, true)
		slow, slowErr := decode(events, false)
		require.Equal(t, fmt.Sprint(slowErr), fmt.Sprint(fastErr), "%q", events)
		require.Equal(t, joined(slow), joined(fast), "%q", events)
		if fastErr == nil && len(fast) > 0 && fast[len(fast)-1].Kind == model.KindStop {
			complete--
			checkResponse(t, events, fast)
		}
	}

	require.Negative(t, complete, "more of the streams must be complete")
}

// checkResponse requires that a response is valid: its texts are UTF-8, and its calls have a name,
// an id of their own and an object as input.
func checkResponse(t *testing.T, events []string, parts []model.Part) {
	t.Helper()
	response, err := new(collect.Collector).Collect(func(yield func(model.Part, error) bool) {
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
	})
	require.NoError(t, err, "%q", events)
	ids := map[string]bool{"": true}
	for _, b := range response.Message.Content {
		require.True(t, utf8.ValidString(b.Text+b.BadInput), "%q", events)
		if b.Type == model.BlockToolUse {
			require.NotEmpty(t, b.Name, "%q", events)
			require.False(t, ids[b.ID], "%q", events)
			require.True(t, strings.HasPrefix(string(b.Input), "{"), "%q", events)
			ids[b.ID] = true
		}
	}
}

// joined returns parts with consecutive increments of a block joined, and without generated ids.
func joined(parts []model.Part) []model.Part {
	var out []model.Part
	for _, p := range parts {
		if p.Kind == model.KindToolUse && len(p.ID) == 9 {
			p.ID = "generated"
		}

		n := len(out)
		increment := p.Kind == model.KindText || p.Kind == model.KindThinking || p.Kind == model.KindToolInput
		if increment && n > 0 && p.Kind == out[n-1].Kind && p.Index == out[n-1].Index && p.Text != "" {
			out[n-1].Text += p.Text
			continue
		}

		out = append(out, p)
	}

	return out
}
