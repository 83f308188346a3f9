package runtime_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A model that does not accept a part fails the run with an error that names it. The session
// continues without it.
func TestPartsThatAModelDoesNotAccept(t *testing.T) {
	rejection := func(message string) modeltest.Reply {
		return modeltest.Raw(400, "application/json", fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, message))
	}
	fine := modeltest.Repeat(modeltest.Stream(modeltest.Text("Fine.")))
	parts := []wire.ContentPart{{Type: "text", Text: "Look."}, {Type: "image", Name: "a.gif", Data: gif}, filePart("b.pdf", pdf), imagePart(gif)}
	for name, row := range map[string]struct {
		message, want string
		images, files int // that are left
	}{
		"no images":      {"unknown variant `image_url`, expected `text`", "the model does not accept content[1] a.gif, content[3]: unknown variant `image_url`, expected `text`", 0, 1},
		"no files":       {"PDF input is not supported", "the model does not accept content[2] b.pdf: PDF input is not supported", 2, 0},
		"only texts":     {"messages.0.content must be a string", "the model does not accept content[1] a.gif, content[2] b.pdf, content[3]: messages.0.content must be a string", 0, 0},
		"another reason": {"no", "no", 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b, up := at(t, modeltest.OpenAI, nil, rejection(row.message), fine)
			res, run := b.blocking(t, sends(t, "hello", parts...))
			require.Equal(t, http.StatusBadGateway, res.status)
			require.Equal(t, row.want, run.Error)
			require.Equal(t, "invalid_request", run.ErrorType)
			require.Len(t, up.Requests(), 1)
			res = b.do(t, "POST", runs, `{"message":"And now?","sessionId":"`+run.SessionID+`",`+blocking+`}`)
			require.Equal(t, http.StatusOK, res.status, res.body)
			sent := string(up.Requests()[1].Body)
			require.Equal(t, row.images, strings.Count(sent, `"type":"image_url"`))
			require.Equal(t, row.files, strings.Count(sent, `"type":"file"`))
			require.Equal(t, row.images == 0, strings.Contains(sent, "[The image a.gif was left out.]"), sent)
			require.Equal(t, row.files == 0, strings.Contains(sent, "[The file b.pdf was left out.]"))
		})
	}

	t.Run("of a former message", func(t *testing.T) {
		b, up := at(t, modeltest.OpenAI, nil, modeltest.Stream(modeltest.Text("A photo.")), rejection("no image input"), fine)
		_, run := b.blocking(t, sends(t, "hello", parts[1]))
		require.Equal(t, wire.StateCompleted, run.State, run.Error)
		s := b.open(t.Context(), t, `{"message":"And now?","sessionId":"`+run.SessionID+`"}`)
		warning := s.until("system")
		for warning.data["subtype"] != "warning" {
			warning = s.until("system")
		}
		require.Equal(t, "The images of the conversation are left out: no image input.", warning.data["message"])
		require.Equal(t, "success", s.until("result").data["subtype"])
		require.Contains(t, string(up.Requests()[2].Body), "[The image a.gif was left out.]")
	})
}

// The images and files of a conversation are bounded: the oldest ones are left out.
func TestImagesOfAConversationAreBounded(t *testing.T) {
	const unit = 10 << 10
	b, up := at(t, modeltest.OpenAI, func(c *runtime.Config) {
		c.Agents[0].ContextWindow = 10_000_000
		runtime.LimitContent(c, 30*unit)
	}, modeltest.Repeat(modeltest.Stream(modeltest.Text("Fine."))))
	id := ""
	const large = 5 * unit
	for i, sizes := range [][]int{{large}, {large, large}, {large, large}, {large, large}, {0}} {
		req := wire.RunRequest{Message: fmt.Sprint("number ", i), Stream: wire.StreamOff}
		for n, size := range sizes {
			req.Content = append(req.Content, wire.ContentPart{Type: "image", Name: fmt.Sprintf("%d-%d.png", i, n), Data: picture(size)})
		}
		if id != "" {
			req.SessionID, req.RequireSession = &id, true
		}
		body, err := json.Marshal(req)
		require.NoError(t, err)
		res, run := b.blocking(t, string(body))
		require.Equal(t, wire.StateCompleted, run.State, res.body)
		id = run.SessionID
	}
	sent := string(up.Requests()[4].Body)
	require.Equal(t, 5, strings.Count(sent, `"type":"image_url"`), "after the fourth message, 20 units were left")
	for _, name := range []string{"0-0.png", "1-0.png", "1-1.png"} {
		require.Equal(t, 1, strings.Count(sent, "[The image "+name+" was left out.]"))
	}
	require.Contains(t, sent, "number 0")
	require.Zero(t, b.Reserved())
}

// By default, a conversation has at most 30 MiB of images and files.
func TestImagesOfAConversationByDefault(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	files, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd})
	require.NoError(t, err)
	b := serve(t, nil, func(c *runtime.Config) {
		quick(c)
		c.CWD, c.Sessions = cwd, files
		c.Agents[0].ContextWindow = 100_000_000
	})
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	id, warned := "", []bool{}
	for _, sizes := range [][]int{{5 << 20, 5 << 20, 5 << 20, 5 << 20}, {5 << 20, 5 << 20}, {0}} {
		req := wire.RunRequest{Message: "hello"}
		for _, size := range sizes {
			req.Content = append(req.Content, imagePart(picture(size)))
		}
		if id != "" {
			req.SessionID, req.RequireSession = &id, true
		}
		body, err := json.Marshal(req)
		require.NoError(t, err)
		all := b.open(t.Context(), t, string(body)).rest()
		id = all[0].data["session_id"].(string)
		warned = append(warned, slices.ContainsFunc(all, func(ev event) bool {
			message, _ := ev.data["message"].(string)
			return strings.Contains(message, "more than 31457280 bytes")
		}))
	}
	require.Equal(t, []bool{false, false, true}, warned)
	var size int64
	for _, path := range storedSessions(t, dir) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		size += info.Size()
	}
	require.Less(t, size, int64(40<<20), "the compaction drops what is before it")
}
