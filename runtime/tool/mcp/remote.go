package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// remote is one tool of a server. It is valid for all links of the server.
type remote struct {
	server *server
	spec   spec
}

var _ tool.Timed = (*remote)(nil)

func (r *remote) Spec() tool.Spec { return r.spec.Spec }

// Timeout returns the timeout of the server, if it has one.
func (r *remote) Timeout(_ json.RawMessage, limit time.Duration) time.Duration {
	return cmp.Or(r.server.timeout, limit)
}

func (r *remote) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	for again := true; ; again = false {
		l, err := r.server.connect(ctx)
		var answer *sdk.CallToolResult
		if err == nil {
			err = l.awaitProbe(ctx)
		}
		if err == nil {
			done := l.use(call.RunID)
			answer, err = do(ctx, l, func(ctx context.Context) (*sdk.CallToolResult, error) {
				return l.session.CallTool(ctx, &sdk.CallToolParams{Name: r.spec.remote, Arguments: call.Input})
			})
			done()
		}
		switch {
		case err == nil:
			return render(answer), nil
		case ctx.Err() != nil:
			if l != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				l.probe()
			}
			return tool.Result{}, context.Cause(ctx)
		case l == nil:
			return r.failed("", err), nil
		case notSent(err):
			l.end(err)
			if again {
				continue
			}
		}
		return r.failed(r.meaning(l, err), err), nil
	}
}

// meaning describes to the model what an error means for the call.
func (r *remote) meaning(l *link, err error) string {
	switch {
	case notSent(err):
		return "the call was not sent: "
	case l.life.Err() != nil || errors.Is(err, io.EOF):
		return "the connection was lost during the call, which may or may not have been executed: "
	}
	return "the call failed: "
}

func (r *remote) failed(doing string, err error) tool.Result {
	return tool.Result{Output: r.server.fault(doing, err).Error(), IsError: true}
}

// notSent reports whether a failed call has definitely not reached a tool.
func notSent(err error) bool {
	if errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, errSessionGone) {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return isBrokenPipe(err)
}

// isBrokenPipe reports whether a write failed because the server has ended. An incomplete line is
// never executed.
func isBrokenPipe(err error) bool {
	path, ok := errors.AsType[*os.PathError](err)
	return ok && path.Op == "write" && (errors.Is(path.Err, syscall.EPIPE) || errors.Is(path.Err, os.ErrClosed))
}

// render returns the result of a call for a model. Content other than text is described in a line;
// images are also returned as such.
func render(answer *sdk.CallToolResult) tool.Result {
	if answer.NeedsInput() {
		return tool.Result{Output: "the server asks for input, which nothing can provide", IsError: true}
	}
	var parts []string
	var images []tool.Image
	texts := false
	text := func(s string) {
		parts = append(parts, s)
		texts = texts || s != ""
	}
	for _, c := range answer.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			text(c.Text)
		case *sdk.ImageContent:
			parts = append(parts, described("image", c.MIMEType, c.Data))
			images = append(images, tool.Image{MediaType: c.MIMEType, Data: c.Data})
		case *sdk.AudioContent:
			parts = append(parts, described("audio", c.MIMEType, c.Data))
		case *sdk.ResourceLink:
			parts = append(parts, "["+words("resource", c.Name, c.URI, c.MIMEType)+"]")
		case *sdk.EmbeddedResource:
			switch res := c.Resource; {
			case res == nil:
			case res.Blob != nil && isText(res.MIMEType) && utf8.Valid(res.Blob):
				text(string(res.Blob))
			case res.Blob != nil:
				parts = append(parts, described("resource", res.URI+" "+res.MIMEType, res.Blob))
				if strings.HasPrefix(res.MIMEType, "image/") {
					images = append(images, tool.Image{MediaType: res.MIMEType, Data: res.Blob})
				}
			default:
				text(res.Text)
			}
		default:
			parts = append(parts, "[content of an unknown type]")
		}
	}
	if !texts && answer.StructuredContent != nil {
		if data, err := json.Marshal(answer.StructuredContent); err == nil {
			parts = append(parts, string(data))
		}
	}
	return tool.Result{Output: strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD"), IsError: answer.IsError, Images: images}
}

// isText reports whether content of a media type is text.
func isText(kind string) bool {
	kind, _, _ = mime.ParseMediaType(kind)
	return strings.HasPrefix(kind, "text/") || slices.Contains([]string{"application/json", "application/xml", "application/yaml"}, kind) ||
		strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}

// described returns the line that describes content other than text.
func described(kind, about string, data []byte) string {
	return fmt.Sprintf("[%s, %d bytes]", words(kind, about), len(data))
}

// words joins texts of a server with single spaces.
func words(texts ...string) string {
	return strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
}
