package runtime_test

import (
	"context"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
)

// filled is a store on a disk that is full for messages of one role, or for new sessions if it is
// "".
type filled struct {
	session.Store
	role model.Role
}

type filledSession struct {
	session.Session
	role model.Role
}

var errFilled = &fs.PathError{Op: "write", Path: "session", Err: syscall.ENOSPC}

func (f filled) Open(ctx context.Context, agentID, id string) (session.Session, error) {
	if f.role == "" {
		return nil, errFilled
	}
	s, err := f.Store.Open(ctx, agentID, id)
	return filledSession{s, f.role}, err
}

func (s filledSession) Append(ctx context.Context, m model.Message) error {
	if m.Role == s.role {
		return errFilled
	}
	return s.Session.Append(ctx, m)
}

// A full disk is not an internal error: the run has failed, with the tokens that it used.
func TestRunsOnAFullDisk(t *testing.T) {
	for role, row := range map[model.Role]struct {
		status int
		body   string
	}{
		"":                  {http.StatusServiceUnavailable, `"error":"Disk full"`},
		model.RoleUser:      {http.StatusBadGateway, `"error":"the disk of the runtime is full"`},
		model.RoleAssistant: {http.StatusBadGateway, `"usage":{"input_tokens":10,"output_tokens":5,`},
	} {
		t.Run("full for "+string(role), func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One."))))
			b := serve(t, up, func(c *runtime.Config) {
				c.Sessions = filled{session.NewMemory(session.MemoryConfig{}), role}
			})
			res := b.do(t, http.MethodPost, "/v1/agents/helper/runs", `{"message":"hello","stream":false}`)
			require.Equal(t, row.status, res.status, res.body)
			require.Contains(t, res.body, row.body)
		})
	}
}
