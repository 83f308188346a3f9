package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Limits of the resources of a server. Sizes are in bytes.
const (
	maxResources    = 1000     // and templates, in one list
	maxResourceList = 64 << 10 // of a list
	maxResourceText = 500      // of a name and of a description in it
	maxURI          = 8 << 10
	maxContents     = 1000 // contents of one resource
)

// resources reads a resource, or lists the resources and their templates if uri is "".
func (s *server) resources(ctx context.Context, call tool.Call, uri string) (tool.Result, error) {
	if len(uri) > maxURI {
		return tool.Result{}, fmt.Errorf("the uri is longer than %d bytes", maxURI)
	}

	return s.call(ctx, call, func(ctx context.Context, l *link) (tool.Result, error) {
		if uri != "" {
			return readResource(ctx, l, uri, call.Progress)
		}

		return s.listResources(ctx, l)
	})
}

func readResource(ctx context.Context, l *link, uri string, progress func()) (tool.Result, error) {
	params := &sdk.ReadResourceParams{URI: uri}
	if progress != nil {
		token, done := l.filter.onProgress(progress)
		defer done()
		params.SetProgressToken(token)
	}

	answer, err := uncached(ctx, func(ctx context.Context) (*sdk.ReadResourceResult, error) {
		return l.session.ReadResource(ctx, params)
	})
	switch {
	case err != nil:
		return tool.Result{}, err
	case answer.NeedsInput():
		return needsInput, nil
	case len(answer.Contents) > maxContents:
		return tool.Result{}, fmt.Errorf("the resource has more than %d contents", maxContents)
	}

	var out output
	for _, c := range answer.Contents {
		if len(answer.Contents) > 1 && c != nil {
			out.parts = append(out.parts, "["+words("resource", c.URI, c.MIMEType)+"]")
		}

		out.resource(c)
	}

	return out.result(), nil
}

// listed is one line of a list: a resource, or a template of resources.
type listed struct {
	Server      string `json:"server"`
	URI         string `json:"uri,omitempty"`
	URITemplate string `json:"uriTemplate,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitempty"`
}

func (s *server) listResources(ctx context.Context, l *link) (tool.Result, error) {
	var list bytes.Buffer
	count := 0
	full := false
	add := func(v listed) {
		v.Server = s.name
		v.Name = excerpt.Shorten(v.Name, maxResourceText)
		v.Description = excerpt.Shorten(v.Description, maxResourceText)
		v.MIMEType = excerpt.Shorten(v.MIMEType, maxResourceText)
		before := list.Len()
		lines := json.NewEncoder(&list)
		lines.SetEscapeHTML(false)
		err := lines.Encode(v)
		if count++; err != nil || count > maxResources || list.Len() > maxResourceList || len(v.URI)+len(v.URITemplate) > maxURI {
			list.Truncate(before)
			full = true
		}
	}
	complete, err := eachPage(func(cursor string) (next string, more bool, err error) {
		page, err := uncached(ctx, func(ctx context.Context) (*sdk.ListResourcesResult, error) {
			return l.session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		})
		if err != nil {
			return "", false, err
		}

		for _, r := range page.Resources {
			if r != nil && !full {
				add(listed{URI: r.URI, Name: r.Name, Description: r.Description, MIMEType: r.MIMEType, Size: r.Size})
			}
		}

		return page.NextCursor, !full, nil
	})
	if err != nil {
		return tool.Result{}, err
	}

	if complete {
		complete, err = eachPage(func(cursor string) (next string, more bool, err error) {
			page, err := uncached(ctx, func(ctx context.Context) (*sdk.ListResourceTemplatesResult, error) {
				return l.session.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
			})
			if err != nil {
				return "", false, err
			}

			for _, r := range page.ResourceTemplates {
				if r != nil && !full {
					add(listed{URITemplate: r.URITemplate, Name: r.Name, Description: r.Description, MIMEType: r.MIMEType})
				}
			}

			return page.NextCursor, !full, nil
		})
		if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code == jsonrpc.CodeMethodNotFound {
			complete, err = true, nil // the server has no templates
		}
	}

	if err != nil {
		return tool.Result{}, err
	}

	if count == 0 {
		fmt.Fprintf(&list, "The MCP server %s lists no resources.", s.name)
	}

	if !complete {
		fmt.Fprintf(&list, "The MCP server %s lists more resources; the rest is left out.", s.name)
	}

	return tool.Result{Output: strings.ToValidUTF8(strings.TrimSpace(list.String()), "\uFFFD"), Truncated: !complete}, nil
}

// eachPage calls page with the cursor of each page of a list. It reports false if page wants no
// more of them, or if the list does not end.
func eachPage(page func(cursor string) (next string, more bool, err error)) (bool, error) {
	cursors := map[string]bool{}
	for cursor := ""; ; {
		cursors[cursor] = true
		next, more, err := page(cursor)
		if err != nil || !more {
			return false, err
		}

		if next == "" {
			return true, nil
		}

		if cursors[next] || len(cursors) >= maxPages || len(next) > maxCursor {
			return false, nil
		}

		cursor = next
	}
}

// The SDK stores the results of reads and lists of resources without a bound: a result is taken
// from it on its way, and the SDK receives errTaken.
type takenKey struct{}

var errTaken = errors.New("the result was taken")

func takeResults(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if taken, ok := ctx.Value(takenKey{}).(*sdk.Result); ok && err == nil {
			*taken = result
			return nil, errTaken
		}

		return result, err
	}
}

// uncached returns the result of send, which takeResults has taken.
func uncached[R sdk.Result](ctx context.Context, send func(context.Context) (R, error)) (R, error) {
	var taken sdk.Result
	result, err := send(context.WithValue(ctx, takenKey{}, &taken))
	if errors.Is(err, errTaken) {
		return taken.(R), nil
	}

	return result, err
}
