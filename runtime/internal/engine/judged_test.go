package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// The tool and Config.Approve receive the command that the policy checked. The events and the
// conversation contain the command that the model wrote.
func TestTheCheckedInputIsExecuted(t *testing.T) {
	const written, judged = `{"command":"cat a # \\\nls x","timeout":5}`, `{"command":"('exec' -- 'cat' 'a') ; ('exec' -- 'ls' 'x')","timeout":5}`
	for name, row := range map[string]struct {
		allowed, disallowed []string
		mode                permission.Mode
		approves            bool
		want                string
	}{
		"an allow pattern":                {[]string{"Bash(cat *)", "Bash(ls *)"}, nil, permission.ModeDefault, false, judged},
		"a deny pattern":                  {nil, []string{"Bash(git push *)"}, permission.ModeBypass, false, judged},
		"the mode auto":                   {nil, nil, permission.ModeAuto, false, judged},
		"approved after it was judged":    {[]string{"Bash(ls)"}, nil, permission.ModeDefault, true, judged},
		"approved without being judged":   {nil, nil, permission.ModeDefault, true, written},
		"no rule has to read the command": {[]string{"Bash"}, nil, permission.ModeDefault, false, written},
	} {
		t.Run(name, func(t *testing.T) {
			var got, asked []string
			bash := tool.New(tool.Spec{Name: "Bash"}, func(_ context.Context, call tool.Call) (tool.Result, error) {
				got = append(got, string(call.Input))
				return tool.Result{Output: "ok"}, nil
			})
			m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "Bash", written)),
				modeltest.Stream(modeltest.Text("Done.")))
			s := newSetup(m, bash)
			s.Policy = policy(t, row.mode, row.allowed, row.disallowed)
			if row.approves {
				s.Approve = func(_ context.Context, a engine.ApprovalRequest) bool {
					asked = append(asked, string(a.Input))
					return true
				}
			}
			events := s.run(t.Context(), t, "")
			require.NoError(t, events.err)
			require.Equal(t, []string{row.want}, got)
			if row.approves {
				require.Equal(t, []string{row.want}, asked)
			}
			require.Contains(t, string(up.Requests()[1].Body), `cat a #`)
			require.NotContains(t, string(up.Requests()[1].Body), "exec")
		})
	}
}
