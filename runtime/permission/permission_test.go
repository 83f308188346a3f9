package permission_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/permission"
)

func TestModes(t *testing.T) {
	// What may run of: a read-only tool, another one, and the same two when they are listed.
	type may struct{ read, write, listedRead, listedWrite error }
	for mode, want := range map[permission.Mode]may{
		permission.ModeDefault:     {nil, permission.ErrMode, nil, nil},
		"":                         {nil, permission.ErrMode, nil, nil},
		permission.ModeAcceptEdits: {nil, permission.ErrMode, nil, nil},
		permission.ModeDontAsk:     {nil, permission.ErrMode, nil, nil},
		permission.ModeAuto:        {nil, permission.ErrMode, nil, nil},
		permission.ModePlan:        {nil, permission.ErrPlan, nil, permission.ErrPlan},
		permission.ModeBypass:      {nil, nil, nil, nil},
	} {
		t.Run(string(mode), func(t *testing.T) {
			free := permission.New(mode, nil, nil)
			listed := permission.New(mode, []string{"look", "change"}, nil)
			require.Equal(t, want, may{
				free.Check("look", true, nil), free.Check("change", false, nil),
				listed.Check("look", true, nil), listed.Check("change", false, nil),
			})
		})
	}
}

func TestRules(t *testing.T) {
	for name, row := range map[string]struct {
		allowed, disallowed []string
		tool                string
		offered             bool
		err                 error
	}{
		"no lists":                         {nil, nil, "look", true, nil},
		"an empty list allows nothing":     {[]string{}, nil, "look", false, permission.ErrNotListed},
		"not listed":                       {[]string{"other"}, nil, "look", false, permission.ErrNotListed},
		"listed":                           {[]string{"look"}, nil, "look", true, nil},
		"listed with white space":          {[]string{" look "}, nil, "look", true, nil},
		"names are exact":                  {[]string{"Look"}, nil, "look", false, permission.ErrNotListed},
		"denied":                           {nil, []string{"look"}, "look", false, permission.ErrDenied},
		"denied wins over listed":          {[]string{"look"}, []string{"look"}, "look", false, permission.ErrDenied},
		"a pattern allows nothing unread":  {[]string{"look(*.md)"}, nil, "look", true, permission.ErrPattern},
		"a plain rule beside a pattern":    {[]string{"look(*.md)", "look"}, nil, "look", true, nil},
		"a pattern denies what is unread":  {nil, []string{"look(*.md)"}, "look", true, permission.ErrDenied},
		"a server":                         {[]string{"mcp__files"}, nil, "mcp__files__read", true, nil},
		"a server with a star":             {[]string{"mcp__files__*"}, nil, "mcp__files__read", true, nil},
		"one tool of a server":             {[]string{"mcp__files__read"}, nil, "mcp__files__read", true, nil},
		"another tool of a server":         {[]string{"mcp__files__read"}, nil, "mcp__files__write", false, permission.ErrNotListed},
		"a server whose name begins alike": {[]string{"mcp__file"}, nil, "mcp__files__read", false, permission.ErrNotListed},
		"a star is for servers alone":      {[]string{"lo__*"}, nil, "lo__ok", false, permission.ErrNotListed},
		"a denied server":                  {nil, []string{"mcp__files"}, "mcp__files__read", false, permission.ErrDenied},
		"a denied server, by a star":       {nil, []string{"mcp__files__*"}, "mcp__files__read", false, permission.ErrDenied},
		"a denied server, one tool of it":  {[]string{"mcp__files"}, []string{"mcp__files__read"}, "mcp__files__read", false, permission.ErrDenied},
		"a denied server, another of it":   {[]string{"mcp__files"}, []string{"mcp__files__read"}, "mcp__files__write", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := permission.New(permission.ModeBypass, row.allowed, row.disallowed)
			require.Equal(t, row.offered, p.Offers(row.tool, true))
			require.Equal(t, row.err, p.Check(row.tool, true, nil))
		})
	}
}

func TestPlanOffersReadOnlyToolsAlone(t *testing.T) {
	p := permission.New(permission.ModePlan, []string{"change"}, nil)
	require.False(t, p.Offers("change", false))
	require.True(t, p.Offers("change", true))
}

func ExamplePolicy() {
	p := permission.New(permission.ModeDefault, []string{"look", "change"}, []string{"change"})
	fmt.Println(p.Check("look", true, nil))
	fmt.Println(p.Check("change", false, nil))
	// Output:
	// <nil>
	// the tool is denied by disallowedTools
}
