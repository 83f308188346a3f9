package permission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/permission"
)

// A tool whose name models do not accept has two names. A rule may contain either.
func TestRulesMatchBothNames(t *testing.T) {
	read := permission.Tool{Name: "mcp__files__fs_read", Original: "mcp__files__fs.read"}
	for name, row := range map[string]struct {
		allowed, disallowed []string
		err                 error
	}{
		"allowed by the name of the model": {[]string{"mcp__files__fs_read"}, nil, nil},
		"allowed by its own name":          {[]string{"mcp__files__fs.read"}, nil, nil},
		"allowed by the server":            {[]string{"mcp__files"}, nil, nil},
		"not listed":                       {[]string{"mcp__files__fs-read"}, nil, permission.ErrNotListed},
		"denied by the name of the model":  {nil, []string{"mcp__files__fs_read"}, permission.ErrDenied},
		"denied by its own name":           {nil, []string{"mcp__files__fs.read"}, permission.ErrDenied},
		"denied by one, allowed by other":  {[]string{"mcp__files__fs_read"}, []string{"mcp__files__fs.read"}, permission.ErrDenied},
		"another tool denied":              {nil, []string{"mcp__files__fs.write"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(t, permission.ModeBypass, row.allowed, row.disallowed)
			_, err := p.Check(read, nil)
			require.Equal(t, row.err, err)
			require.Equal(t, row.err == nil, p.Offers(read))
			narrow, narrowErr := policy(t, permission.ModeBypass, nil, nil).Narrow(row.allowed, row.disallowed)
			require.NoError(t, narrowErr)
			_, err = narrow.Check(read, nil)
			require.Equal(t, row.err, err, "of a subagent")
		})
	}
	p := policy(t, permission.ModeBypass, nil, []string{"mcp__files__fs_read"})
	_, err := p.Check(permission.Tool{Name: "mcp__files__fs_read_4074bc02", Original: "mcp__files__fs.read"}, nil)
	require.NoError(t, err, "the rule is about the tool that has this name")
}
