package jsdepth_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/jsdepth"
)

func TestReader(t *testing.T) {
	r := jsdepth.NewReader("const a = {b: `x`, c: `y${z.d}`}\n/r/g")
	var tokens []string
	for t, ok := r.Next(); ok; t, ok = r.Next() {
		tokens = append(tokens, fmt.Sprint(t.Kind, t.Text, " ", t.Depth))
		if t.Newline || t.Property {
			tokens[len(tokens)-1] += fmt.Sprint(" ", t.Newline, t.Property)
		}
	}
	require.ErrorContains(t, r.Err(), "2:1: a slash after a brace is ambiguous")
	require.Equal(t, strings.Split("0const 0 true false|0a 0|4= 0|2{ 0|0b 1|4: 1|1`x` 1|4, 1|0c 1|4: 1|2${ 1|0z 2|4. 2|0d 2 false true|3} 1|3} 0", "|"), tokens)
}
