package mcp

import (
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// render returns the result of a call for a model. Content other than text is described in a line;
// images are also returned as such.
func render(answer *sdk.CallToolResult) tool.Result {
	var out output
	for _, c := range answer.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			out.text(c.Text)
		case *sdk.ImageContent:
			out.describe("image", c.MIMEType, c.Data)
			out.images = append(out.images, tool.Image{MediaType: c.MIMEType, Data: c.Data})
		case *sdk.AudioContent:
			out.describe("audio", c.MIMEType, c.Data)
		case *sdk.ResourceLink:
			out.parts = append(out.parts, "["+words("resource", c.Name, c.URI, c.MIMEType)+"]")
		case *sdk.EmbeddedResource:
			out.resource(c.Resource)
		default:
			out.parts = append(out.parts, "[content of an unknown type]")
		}
	}

	if !out.texts && answer.StructuredContent != nil {
		if data, err := json.Marshal(answer.StructuredContent); err == nil {
			out.parts = append(out.parts, string(data))
		}
	}

	result := out.result()
	result.IsError = answer.IsError
	return result
}

// output is content for a model.
type output struct {
	parts  []string
	images []tool.Image
	texts  bool // a part is text of the server
}

func (o *output) text(s string) {
	o.parts = append(o.parts, s)
	o.texts = o.texts || s != ""
}

// describe adds a line about content that is not text.
func (o *output) describe(kind, about string, data []byte) {
	o.parts = append(o.parts, fmt.Sprintf("[%s, %d bytes]", words(kind, about), len(data)))
}

// resource adds the content of a resource. Servers send text as base64 too.
func (o *output) resource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
	case r.Blob == nil:
		o.text(r.Text)
	case isText(r.MIMEType) && utf8.Valid(r.Blob):
		o.text(string(r.Blob))
	default:
		o.describe("resource", r.URI+" "+r.MIMEType, r.Blob)
		if strings.HasPrefix(r.MIMEType, "image/") {
			o.images = append(o.images, tool.Image{MediaType: r.MIMEType, Data: r.Blob})
		}
	}
}

func (o *output) result() tool.Result {
	return tool.Result{Output: strings.ToValidUTF8(strings.Join(o.parts, "\n"), "\uFFFD"), Images: o.images}
}

// isText reports whether content of a media type is text.
func isText(kind string) bool {
	kind, _, _ = mime.ParseMediaType(kind)
	return strings.HasPrefix(kind, "text/") || slices.Contains([]string{"application/json", "application/xml", "application/yaml"}, kind) ||
		strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}

// words joins texts of a server with single spaces.
func words(texts ...string) string {
	return strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
}
