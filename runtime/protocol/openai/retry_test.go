package openai_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// A rate limit of the model has the wait that its API requests. Clients repeat a run on their own
// only if it has executed no tool.
func TestRetryAfter(t *testing.T) {
	limited := modeltest.Status(http.StatusTooManyRequests, "Retry-After", "7")
	call := modeltest.Stream(modeltest.ToolCall("t1", "weather", `{}`))
	for path, body := range map[string]string{"/chat/completions": hello, "/responses": `{"model":"helper","input":"hello"}`} {
		b := serve(t, modeltest.Start(t, modeltest.Anthropic, limited, call, limited, modeltest.Status(http.StatusTooManyRequests)), func(c *runtime.Config) {
			c.Tools = []tool.Tool{tool.Func(tool.Spec{Name: "weather", ReadOnly: true}, func(context.Context, struct{}) (string, error) { return "rain", nil })}
		})
		for _, repeated := range []string{"", "false"} {
			res := b.do("POST", path, body)
			require.Equal(t, http.StatusTooManyRequests, res.status, res.body)
			require.Equal(t, "rate_limit_exceeded", errorOf(t, res.json)["code"])
			require.Equal(t, "7", res.header.Get("Retry-After"))
			require.Equal(t, repeated, res.header.Get("X-Should-Retry"))
		}
		require.Empty(t, b.do("POST", path, body).header.Get("Retry-After"), "of an API that requests none")
	}
}
