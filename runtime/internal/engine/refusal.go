package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/runtime/model"
)

// The same call is refused again. A model that does not change it after a refusal that says so
// would repeat it until its turns are used.
const (
	warnAfter = 3 // turns in a row
	endAfter  = 6
)

// refusal returns the result of a call that is not run.
func refusal(output string) result { return result{output: output, isError: true, refused: true} }

// coerceInputs gives the inputs of calls the types that the schemas of their tools permit, so that
// the conversation, the events, the permissions and the tool have the same input.
func (r *runState) coerceInputs(ctx context.Context, content []model.Block) {
	inTime, cancel := context.WithTimeout(ctx, r.engine.cfg.ToolTimeout)
	defer cancel()
	for i := range content {
		b := &content[i]
		e := r.tools.entries[b.Name]
		if b.Type == model.BlockToolUse && b.BadInput == "" && e != nil && e.schema != nil {
			b.Input = e.schema.Coerce(inTime, b.Input)
		}
	}
}

// refusals counts the calls that are refused in each turn. Its zero value is ready for use.
type refusals struct {
	last, now map[[sha256.Size]byte]int // turns in a row, by the tool and its input
}

// add counts a refused call, once for each turn. It returns what the model is told about a
// repetition.
func (s *refusals) add(call *model.Block) string {
	key := keyOf(call)
	turns := s.last[key] + 1
	if s.now == nil {
		s.now = map[[sha256.Size]byte]int{}
	}

	s.now[key] = turns
	if turns < warnAfter {
		return ""
	}

	return fmt.Sprintf("\nThis call was refused in %d turns in a row, and would be refused again. "+
		"Do not repeat it: change the input, use another tool, or say what prevents you.", turns)
}

// endTurn returns ErrRepeated if a call was refused in too many turns in a row.
func (s *refusals) endTurn() error {
	var err error
	for _, turns := range s.now {
		if turns >= endAfter {
			err = ErrRepeated
		}
	}

	s.last, s.now = s.now, nil
	return err
}

// keyOf returns the hash of a call, in which the order of members has no effect.
func keyOf(call *model.Block) [sha256.Size]byte {
	var input any = call.BadInput
	if call.BadInput == "" {
		decoder := json.NewDecoder(bytes.NewReader(call.Input))
		decoder.UseNumber()
		_ = decoder.Decode(&input) // it is a JSON object
	}

	text, _ := json.Marshal([]any{call.Name, input}) // it was decoded from JSON
	return sha256.Sum256(text)
}
