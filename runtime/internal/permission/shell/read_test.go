package shell_test

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission/shell"
)

//go:embed testdata/language.txt
var language string

// read returns what bash executes for a text, or the construct that cannot be read.
func read(text string) string {
	script, err := shell.Read(text)
	if e, ok := errors.AsType[*shell.Error](err); ok {
		return "error: " + e.Construct
	}
	return script.String()
}

func TestLanguage(t *testing.T) {
	texts := 0
	for line := range strings.Lines(language) {
		if strings.HasPrefix(line, "#") || line == "\n" {
			continue
		}
		var text, want string
		_, err := fmt.Sscanf(line, "%q %q", &text, &want)
		require.NoError(t, err, line)
		require.Equal(t, want, read(text), "%q", text)
		texts++
	}
	require.Greater(t, texts, 300)
}

// The names of builtins that change the shell cannot be read, also in quotes. A keyword in quotes
// is the name of a program.
func TestNamesOfTheShell(t *testing.T) {
	for name := range strings.FieldsSeq(". alias bg bind break builtin caller command compgen complete compopt continue declare dirs disown enable eval exec" +
		" export fc fg getopts hash help history jobs let local logout mapfile popd pushd read readarray readonly return set shift shopt" +
		" source suspend times trap type typeset ulimit umask unalias unset wait") {
		require.Equal(t, "error: "+name+", which changes the shell itself", read(name+" x"))
		require.Equal(t, "error: "+name+", which changes the shell itself", read("a | '"+name+"'"))
		require.Equal(t, "'exec' -- 'x' '"+name+"'", read("x "+name))
	}
	for name := range strings.FieldsSeq("cd echo pwd true false : exit") {
		require.Equal(t, "'"+name+"'", read(name))
	}
	for name := range strings.FieldsSeq("if then elif else fi case esac for select while until do done function time { } ! [[ ]] coproc") {
		require.Equal(t, "error: the keyword "+name, read(name+" x"))
		require.Equal(t, "'exec' -- '"+name+"'", read("'"+name+"'"))
	}
}

func TestLimits(t *testing.T) {
	const most, long = 64 << 10, "error: more than 64 KiB of text"
	require.NotEqual(t, long, read("a "+strings.Repeat("b", most-2)))
	require.Equal(t, long, read("a "+strings.Repeat("b", most-1)))
	// A single quote is four characters in what bash executes.
	const most2, quotes = 96 << 10, 20_000
	text := `"` + strings.Repeat("'", quotes) + strings.Repeat("b", most2-4*quotes-len("'exec' -- ''")) + `"`
	require.Len(t, read(text), most2)
	require.Equal(t, long, read("b"+text))
}

func TestScript(t *testing.T) {
	script, err := shell.Read(`a 'b'*c[d-f] "*" <g | cd &>h`)
	require.NoError(t, err)
	require.Len(t, script, 2)
	first, second := script[0], script[1]
	require.Empty(t, first.After)
	require.Equal(t, "|", second.After)
	var words []string
	var globs []bool
	for _, w := range first.Words {
		words, globs = append(words, w.Text), append(globs, w.IsGlob())
	}
	require.Equal(t, []string{"a", "b" + shell.Hole + "c" + shell.Hole, "*"}, words)
	require.Equal(t, []bool{false, true, false}, globs)
	require.Equal(t, []shell.Redirect{{Descriptor: "0", Operator: "<", Target: "g"}}, first.Redirects)
	require.Equal(t, []shell.Redirect{{Descriptor: "1", Operator: ">", Target: "h"}, {Descriptor: "2", Operator: ">&", Target: "1"}}, second.Redirects)
	require.Equal(t, shell.Literal("cd"), second.Words[0])
}
