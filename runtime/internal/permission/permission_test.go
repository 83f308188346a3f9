package permission_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

func policy(t testing.TB, mode permission.Mode, allowed, disallowed []string) *permission.Policy {
	t.Helper()
	p, err := permission.New(permission.Config{Mode: mode, Allowed: allowed, Disallowed: disallowed, CWD: "/work",
		AgentHome: ".agents"})
	require.NoError(t, err)
	return p
}

// check returns the error of a decision.
func check(p *permission.Policy, tool string, readOnly bool, in json.RawMessage) error {
	_, err := p.Check(context.Background(), permission.Tool{Name: tool, ReadOnly: readOnly}, in)
	return err
}

// input returns a tool input with one key.
func input(key, value string) json.RawMessage {
	text, _ := json.Marshal(map[string]string{key: value})
	return text
}

// tools are calls: one of each built-in tool, of an MCP tool and of a custom tool.
var tools = []struct {
	name     string
	readOnly bool
	input    json.RawMessage
}{
	{"Read", true, input("file_path", "a.go")},
	{"Write", false, input("file_path", "a.go")},
	{"Edit", false, input("file_path", "a.go")},
	{"Glob", true, input("pattern", "*.go")},
	{"Grep", true, input("pattern", "func")},
	{"Bash", false, input("command", "git status")},
	{"WebFetch", false, input("url", "https://example.com/")},
	{"TodoWrite", true, json.RawMessage(`{"todos":[]}`)},
	{"Skill", true, input("skill", "review")},
	{"Task", true, input("subagent_type", "review")},
	{"mcp__files__search", false, json.RawMessage(`{}`)},
	{"word_count", false, json.RawMessage(`{}`)},
}

func TestEveryModeWithEveryTool(t *testing.T) {
	const (
		runs     = 'r' // also if it is not listed
		ifListed = 'l'
		isDenied = '-' // also if it is listed
	)
	for mode, row := range map[permission.Mode]string{ // a letter for each element of tools
		"":                         "rllrrllrrrll",
		permission.ModeDefault:     "rllrrllrrrll",
		permission.ModeDontAsk:     "rllrrllrrrll",
		permission.ModeAcceptEdits: "rrrrrllrrrll",
		permission.ModeAuto:        "rrrrrrlrrrll",
		permission.ModePlan:        "r--rr--rrr--",
		permission.ModeBypass:      "rrrrrrrrrrrr",
	} {
		for i, tool := range tools {
			t.Run(string(mode)+" "+tool.name, func(t *testing.T) {
				decide := func(allowed, disallowed []string) error {
					return check(policy(t, mode, allowed, disallowed), tool.name, tool.readOnly, tool.input)
				}
				unlisted, listed, others := permission.ErrMode, error(nil), permission.ErrNotListed
				switch row[i] {
				case runs:
					unlisted = nil
				case isDenied:
					unlisted, listed, others = permission.ErrPlan, permission.ErrPlan, permission.ErrPlan
				}
				require.Equal(t, unlisted, decide(nil, nil))
				require.Equal(t, listed, decide([]string{tool.name}, nil))
				require.Equal(t, others, decide([]string{"other"}, nil))
				require.Equal(t, others, decide([]string{}, nil))
				require.Equal(t, permission.ErrDenied, decide(nil, []string{tool.name}))
				require.Equal(t, permission.ErrDenied, decide([]string{tool.name}, []string{tool.name}), "a denial takes precedence")
				require.Equal(t, permission.ErrDenied, decide(nil, []string{tool.name + "(*)"}))

				p := policy(t, mode, nil, nil)
				require.Equal(t, row[i] != isDenied, p.Offers(permission.Tool{Name: tool.name, ReadOnly: tool.readOnly}))
			})
		}
	}
}

func TestPatternsRestrictInEveryMode(t *testing.T) {
	patterns := map[string]string{
		"Read": "b.go", "Write": "b.go", "Edit": "b.go", "Bash": "npm *", "WebFetch": "domain:example.org", "Skill": "other",
		"Task": "other",
	}
	for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits, permission.ModeAuto,
		permission.ModeDontAsk, permission.ModeBypass} {
		for _, tool := range tools {
			t.Run(string(mode)+" "+tool.name, func(t *testing.T) {
				inner := patterns[tool.name]
				if inner == "" {
					inner = "*" // there is no pattern language
				}
				one := tool.name + "(" + inner + ")"
				p := policy(t, mode, []string{one}, nil)
				require.True(t, p.Offers(permission.Tool{Name: tool.name, ReadOnly: tool.readOnly}))
				require.Equal(t, permission.ErrPattern, check(p, tool.name, tool.readOnly, tool.input))
				require.NoError(t, check(policy(t, mode, []string{one, tool.name}, nil), tool.name, tool.readOnly, tool.input),
					"a plain rule in addition")
			})
		}
	}
}

func TestToolNames(t *testing.T) {
	for name, row := range map[string]struct {
		allowed, disallowed []string
		tool                string
		offered             bool
		err                 error
	}{
		"listed with white space":      {[]string{" look "}, nil, "look", true, nil},
		"white space in a rule":        {[]string{" Read ( a.go ) "}, nil, "Read", true, nil},
		"names are exact":              {[]string{"Look"}, nil, "look", false, permission.ErrNotListed},
		"a pattern of a custom tool":   {[]string{"look(*.md)"}, nil, "look", true, permission.ErrPattern},
		"it denies every input":        {nil, []string{"look(*.md)"}, "look", true, permission.ErrDenied},
		"a server":                     {[]string{"mcp__files"}, nil, "mcp__files__read", true, nil},
		"a server with a star":         {[]string{"mcp__files__*"}, nil, "mcp__files__read", true, nil},
		"a server of two words":        {[]string{"mcp__my__files__*"}, nil, "mcp__my__files__read", true, nil},
		"one tool of a server":         {[]string{"mcp__files__read"}, nil, "mcp__files__read", true, nil},
		"another tool of a server":     {[]string{"mcp__files__read"}, nil, "mcp__files__write", false, permission.ErrNotListed},
		"a server with a similar name": {[]string{"mcp__file"}, nil, "mcp__files__read", false, permission.ErrNotListed},
		"a denied server":              {nil, []string{"mcp__files"}, "mcp__files__read", false, permission.ErrDenied},
		"a denied server, by a star":   {nil, []string{"mcp__files__*"}, "mcp__files__read", false, permission.ErrDenied},
		"a denied tool of a listed server": {[]string{"mcp__files"}, []string{"mcp__files__read"}, "mcp__files__read", false,
			permission.ErrDenied},
		"another tool of that server":      {[]string{"mcp__files"}, []string{"mcp__files__read"}, "mcp__files__write", true, nil},
		"a pattern on a server":            {[]string{"mcp__files(x)"}, nil, "mcp__files__read", true, permission.ErrPattern},
		"Edit lists Write":                 {[]string{"Edit"}, nil, "Write", true, nil},
		"Edit with a pattern lists Write":  {[]string{"Edit(*.md)"}, nil, "Write", true, permission.ErrPattern},
		"Write does not list Edit":         {[]string{"Write"}, nil, "Edit", false, permission.ErrNotListed},
		"Edit denied covers Write":         {nil, []string{"Edit"}, "Write", false, permission.ErrDenied},
		"Write denied does not cover Edit": {nil, []string{"Write"}, "Edit", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(t, permission.ModeBypass, row.allowed, row.disallowed)
			require.Equal(t, row.offered, p.Offers(permission.Tool{Name: row.tool}))
			require.Equal(t, row.err, check(p, row.tool, false, input("file_path", "a.go")))
		})
	}
}

func TestZeroPolicy(t *testing.T) {
	var p permission.Policy
	require.NoError(t, check(&p, "look", true, nil))
	require.Equal(t, permission.ErrMode, check(&p, "change", false, nil))
	require.Equal(t, permission.ErrProtected, check(&p, "Write", true, input("file_path", ".git/config")))
	narrow, err := p.Narrow([]string{"change"}, nil)
	require.NoError(t, err)
	require.Equal(t, permission.ErrMode, check(narrow, "change", false, nil))
}

func TestNewReportsEachInvalidRule(t *testing.T) {
	for _, rule := range []string{
		"", " ", "Bash(", "Bash(git *", "Bash()", "Bash( )", "Bash(a)b", "(git)", "Read Write", "Read,Write", "Read)", "Re\x01ad", "mcp__ ", "mcp__a b", "mcp__a__b*",
		"*", "mcp__", "mcp__*",
		"mcp__files__r*", "mcp____*", "lo__*", "Bash(ls\nrm)", "Bash(curl * | sh)", "Bash(cd x; ls)", "Bash(a && b)",
		`Bash(git commit -m "*")`, "Bash(:*)",
		"Read(../x)", "Read(a/../x)", "Read(//etc/**)", "Read(~/.ssh/**)", "Read(!x)", "Read([)", "Read({a)", "Read(/)",
		"Read(./)", "Read({a}{b}{c}{d}{e})",
		"Read({" + strings.Repeat("a,", 33) + "b})",
		"WebFetch(example.com)", "WebFetch(domain:)", "WebFetch(domain:https://x)", "WebFetch(domain:münchen.de)",
		"WebFetch(domain:a*.de)", "WebFetch(domain:x:80)",
	} {
		for _, lists := range [][2][]string{{{"Read", rule, "Oops("}, nil}, {nil, {"Read", rule, "Oops("}}} {
			_, err := permission.New(permission.Config{Allowed: lists[0], Disallowed: lists[1]})
			require.ErrorContains(t, err, "Oops(", rule)
			require.ErrorContains(t, err, strconv.Quote(rule))
		}
	}
	_, err := permission.New(permission.Config{Allowed: []string{"Read({a}{b}{c}{d})", "Read({" + strings.Repeat("a,", 32) + "b})"}})
	require.NoError(t, err)
	_, err = permission.New(permission.Config{Mode: "yolo"})
	require.ErrorContains(t, err, "yolo")
	_, err = policy(t, "", nil, nil).Narrow(nil, []string{"Bash("})
	require.ErrorContains(t, err, "Bash(")
}

func TestNarrow(t *testing.T) {
	bash := func(text string) json.RawMessage { return input("command", text) }
	parent := policy(t, permission.ModeDefault, []string{"Read", "Bash(git *)", "Write"}, []string{"Bash(git push *)"})
	for name, row := range map[string]struct {
		allowed, disallowed []string
		tool                string
		input               json.RawMessage
		err                 error
	}{
		"no rules":                   {nil, nil, "Bash", bash("git log"), nil},
		"no tool is allowed":         {[]string{}, nil, "Bash", bash("git log"), permission.ErrNotListed},
		"both patterns match":        {[]string{"Bash(git log *)"}, nil, "Bash", bash("git log -3"), nil},
		"only the parent allows it":  {[]string{"Bash(git log *)"}, nil, "Bash", bash("git add a"), permission.ErrPattern},
		"only the child allows it":   {[]string{"Bash(npm *)"}, nil, "Bash", bash("npm test"), permission.ErrPattern},
		"a rule without a pattern":   {[]string{"Bash"}, nil, "Bash", bash("npm test"), permission.ErrPattern},
		"the parent denies it":       {[]string{"Bash"}, nil, "Bash", bash("git push"), permission.ErrDenied},
		"the child denies it":        {nil, []string{"Bash(git add *)"}, "Bash", bash("git add a"), permission.ErrDenied},
		"not allowed to the parent":  {[]string{"WebFetch"}, nil, "WebFetch", input("url", "https://a.b"), permission.ErrNotListed},
		"the child does not list it": {[]string{"Read"}, nil, "Write", input("file_path", "a"), permission.ErrNotListed},
		"Edit allows a write":        {[]string{"Edit(docs/**)"}, nil, "Write", input("file_path", "docs/a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			child, err := parent.Narrow(row.allowed, row.disallowed)
			require.NoError(t, err)
			require.Equal(t, row.err, check(child, row.tool, false, row.input))
			again, err := child.Narrow(nil, nil)
			require.NoError(t, err)
			require.Equal(t, row.err, check(again, row.tool, false, row.input))
		})
	}

	t.Run("the mode is that of the parent", func(t *testing.T) {
		child, err := policy(t, permission.ModeDefault, nil, nil).Narrow([]string{"Bash"}, nil)
		require.NoError(t, err)
		require.Equal(t, permission.ErrMode, check(child, "Bash", false, bash("ls")))
	})
	t.Run("children are independent", func(t *testing.T) {
		mid, err := parent.Narrow(nil, nil)
		require.NoError(t, err)
		a, err := mid.Narrow(nil, []string{"Read"})
		require.NoError(t, err)
		b, err := mid.Narrow(nil, []string{"Write"})
		require.NoError(t, err)
		require.False(t, a.Offers(permission.Tool{Name: "Read", ReadOnly: true}))
		require.True(t, b.Offers(permission.Tool{Name: "Read", ReadOnly: true}))
		require.True(t, a.Hides("x"))
		require.False(t, b.Hides("x"))
	})
}

func TestInputIsDecodedAsTheToolsDecodeIt(t *testing.T) {
	p := policy(t, permission.ModeDefault, []string{"Bash(ls *)", "Read(docs/**)", "Skill(a)"},
		[]string{"Bash(rm *)", "Read(docs/key)"})
	for text, want := range map[string]error{
		`{"command":"ls","command":"rm x"}`:   permission.ErrDenied,
		`{"command":"ls","Command":"rm x"}`:   nil, // names are exact, for the tool too
		`{"COMMAND":"ls"}`:                    permission.ErrPattern,
		`{"command":"rm x","command":"ls"}`:   permission.ErrDenied, // a member occurs once
		`{"command":"ls","command":null}`:     permission.ErrDenied,
		`{"command":"ls","x":{"a":1,"a":2}}`:  permission.ErrDenied,
		`{"command":["rm"]}`:                  permission.ErrDenied,
		`{"command":"ls"} {"command":"rm x"}`: permission.ErrDenied,
		`{"command":"r\u006d x"}`:             permission.ErrDenied,
		`{}`:                                  permission.ErrPattern,
		`{"description":"ls"}`:                permission.ErrPattern,
		``:                                    permission.ErrDenied,
		`"ls"`:                                permission.ErrDenied,
		`{"command":"ls","x":{"command":"rm nothing"}}`: nil,
	} {
		require.ErrorIs(t, check(p, "Bash", false, json.RawMessage(text)), want, text)
	}
	for text, want := range map[string]error{
		`{"file_path":"docs/a","file_path":"docs/key"}`: permission.ErrDenied,
		`{"file_path":"docs/a","FILE_PATH":"docs/key"}`: nil,
		`{"FILE_PATH":"docs/a"}`:                        permission.ErrPattern,
		`{"file_path":"docs/a"}`:                        nil,
		`{"file_path":5}`:                               permission.ErrDenied,
		`{}`:                                            permission.ErrPattern,
	} {
		require.Equal(t, want, check(p, "Read", true, json.RawMessage(text)), text)
	}
	require.Equal(t, permission.ErrPattern, check(p, "Skill", true, json.RawMessage(`{"skill":"b","Skill":"a"}`)))
	require.Equal(t, permission.ErrPattern, check(p, "Skill", true, json.RawMessage(`{"skill":"ab"}`)))
}

func TestTheJudgedInput(t *testing.T) {
	git := policy(t, permission.ModeDefault, []string{"Bash(git *)"}, nil)
	for in, want := range map[string]string{
		`{"command":"git status"}`:                                 `{"command":"'exec' -- 'git' 'status'"}`,
		`{"command":"git  status # x","timeout":5}`:                `{"command":"'exec' -- 'git' 'status'","timeout":5}`,
		`{"command":"git a\ngit b\n"}`:                             `{"command":"('exec' -- 'git' 'a') ; ('exec' -- 'git' 'b')"}`,
		`{"COMMAND":"git  a","command":"git  b"}`:                  `{"command":"'exec' -- 'git' 'b'"}`,
		`{"command":"git  b","COMMAND":"git  a"}`:                  `{"command":"'exec' -- 'git' 'b'"}`,
		`{"command":"git 'a<b' &&  echo c"}`:                       `{"command":"('exec' -- 'git' 'a<b') && 'echo' 'c'"}`,
		`{"command":"git *.go 'it'\\''s' '' 2>&1 </dev/null"}`:     `{"command":"'exec' -- 'git' *'.go' 'it'\\''s' '' 2>&'1' 0<'/dev/null'"}`,
		`{"command":"rm x #"}`:                                     `{"command":"'exec' -- 'rm' 'x'"}`, // also if it is not allowed
		`{"command":"# note \\\nbash -c x"}`:                       `{"command":"'exec' -- 'bash' '-c' 'x'"}`,
		`{"command":"# only a comment"}`:                           `{"command":""}`,
		`{"command":"git 'a"}`:                                     `{"command":"git 'a"}`,         // cannot be read
		`{"command":"git a\r\ngit b"}`:                             `{"command":"git a\r\ngit b"}`, // cannot be read
		`{"command":1}`:                                            `{"command":1}`,
		`{"description":"a","command":"git\tx","Description":"b"}`: `{"Description":"b","command":"'exec' -- 'git' 'x'","description":"a"}`,
	} {
		judged, _ := git.Check(t.Context(), permission.Tool{Name: "Bash"}, json.RawMessage(in))
		require.Equal(t, want, string(judged), in)
		free, err := policy(t, permission.ModeBypass, []string{"Bash"}, nil).Check(t.Context(), permission.Tool{Name: "Bash"}, json.RawMessage(in))
		require.NoError(t, err)
		require.Equal(t, in, string(free), "no rule reads the command")
	}
}

// Source names the setting that denies a call, and the rule or the mode.
func TestSourceOfADenial(t *testing.T) {
	bash, write := permission.Tool{Name: "Bash"}, permission.Tool{Name: "Write"}
	for name, row := range map[string]struct {
		cfg           permission.Config
		narrow        []string // disallowedTools of a subagent
		tool          permission.Tool
		input         string
		setting, rule string
	}{
		"a rule": {permission.Config{Disallowed: []string{"Write", "Bash(rm *)", "Bash"}}, nil, bash, `{"command":"rm x"}`, "disallowedTools", "Bash(rm *)"},
		"the rule that matches": {permission.Config{Disallowed: []string{"Bash(cp *)", "Bash(mv *)"}}, nil, bash, `{"command":"mv x y"}`,
			"disallowedTools", "Bash(mv *)"},
		"of a subagent":    {permission.Config{Mode: permission.ModeBypass}, []string{"Bash"}, bash, `{"command":"ls"}`, "disallowedTools", "Bash"},
		"a search":         {permission.Config{Disallowed: []string{"Read(keys/**)"}}, nil, permission.Tool{Name: "Grep", ReadOnly: true}, `{"path":"keys"}`, "disallowedTools", ""},
		"not listed":       {permission.Config{Allowed: []string{"Read"}}, nil, bash, `{"command":"ls"}`, "allowedTools", ""},
		"no pattern":       {permission.Config{Allowed: []string{"Bash(git *)"}}, nil, bash, `{"command":"ls"}`, "allowedTools", ""},
		"the mode":         {permission.Config{}, nil, bash, `{"command":"ls"}`, "permissionMode", "default"},
		"the mode plan":    {permission.Config{Mode: permission.ModePlan}, nil, bash, `{"command":"ls"}`, "permissionMode", "plan"},
		"a protected path": {permission.Config{Mode: permission.ModeAcceptEdits, Allowed: []string{"Write"}}, nil, write, `{"file_path":".git/config"}`, "protectedPaths", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := permission.New(row.cfg)
			require.NoError(t, err)
			p, err = p.Narrow(nil, row.narrow)
			require.NoError(t, err)
			_, denied := p.Check(t.Context(), row.tool, []byte(row.input))
			require.Error(t, denied)
			setting, rule := p.Source(denied, row.tool, []byte(row.input))
			require.Equal(t, row.setting, setting)
			require.Equal(t, row.rule, rule)
		})
	}
}
