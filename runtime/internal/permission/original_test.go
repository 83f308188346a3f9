package permission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
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
			_, err := p.Check(t.Context(), read, nil)
			require.Equal(t, row.err, err)
			require.Equal(t, row.err == nil, p.Offers(read))
			narrow, narrowErr := policy(t, permission.ModeBypass, nil, nil).Narrow(row.allowed, row.disallowed)
			require.NoError(t, narrowErr)
			_, err = narrow.Check(t.Context(), read, nil)
			require.Equal(t, row.err, err, "of a subagent")
		})
	}
}

// Of two tools that would have one name, the second one has a name with a hash. A rule with the
// name without the hash still denies it, and does not allow it.
func TestRulesWithTheNameOfTwoTools(t *testing.T) {
	const plain, hashed, original = "mcp__files__fs_read", "mcp__files__fs_read_4074bc02", "mcp__files__fs.read"
	second := permission.Tool{Name: hashed, Original: original}
	for rule, allowed := range map[string]bool{plain: false, hashed: true, original: true} {
		denying, allowing := policy(t, permission.ModeBypass, nil, []string{rule}), policy(t, permission.ModeBypass, []string{rule}, nil)
		_, err := denying.Check(t.Context(), second, nil)
		require.ErrorIs(t, err, permission.ErrDenied, rule)
		require.False(t, denying.Offers(second), rule)
		_, err = allowing.Check(t.Context(), second, nil)
		require.Equal(t, allowed, err == nil, rule)
		require.Equal(t, allowed, allowing.Offers(second), rule)
	}
	_, err := policy(t, permission.ModeBypass, nil, []string{original}).Check(t.Context(), permission.Tool{Name: plain}, nil)
	require.NoError(t, err, "the rule is about the other tool")
}
