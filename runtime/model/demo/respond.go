package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/model"
)

const (
	// maxEcho bounds a quotation, in runes.
	maxEcho = 1000

	intro = "This is the demo model: it needs no key and no network, and it only echoes."
	howTo = `To call a tool, write its name and a JSON object with its input: /tool NAME {"key": "value"}`
)

// respond returns the response to the last message.
func respond(req *model.Request) []segment {
	if len(req.Messages) == 0 {
		return text(intro)
	}

	last := req.Messages[len(req.Messages)-1]
	if results := results(req, last); results != "" {
		return text(results)
	}

	message := strings.TrimSpace(last.Text())
	if files := received(last); files != "" {
		return text(strings.TrimSpace(echo(message) + " " + files))
	}

	if rest, ok := command(message, "/tool"); ok {
		return call(req, rest)
	}

	if rest, ok := command(message, "/think"); ok {
		return append([]segment{{kind: model.KindThinking, text: "The user wants to see me think about this: " + quote(rest)}},
			text(echo(rest))...)
	}

	return text(echo(message))
}

func text(s string) []segment { return []segment{{kind: model.KindText, text: s}} }

func echo(message string) string {
	if message == "" {
		return intro
	}

	return intro + " You wrote: " + quote(message)
}

// command reports whether the message is that command, and returns its arguments.
func command(message, name string) (string, bool) {
	rest, ok := strings.CutPrefix(message, name)
	if !ok || rest != "" && !unicode.IsSpace(rune(rest[0])) {
		return "", false
	}

	return strings.TrimSpace(rest), true
}

// received names the images and files of a message, "" if it has none.
func received(m model.Message) string {
	var names []string
	for i := range m.Content {
		if b := &m.Content[i]; b.Type == model.BlockImage || b.Type == model.BlockFile {
			name := strings.TrimSpace(string(b.Type) + " " + quote(b.Name))
			names = append(names, fmt.Sprintf("%s (%d bytes)", name, b.Bytes()))
		}
	}

	if len(names) == 0 {
		return ""
	}

	return "You sent: " + strings.Join(names, ", ") + "."
}

// quote returns s, shortened to maxEcho runes.
func quote(s string) string {
	head := excerpt.Characters(s, maxEcho)
	more := ""
	if n := utf8.RuneCountInString(s[len(head):]); n > 0 {
		more = fmt.Sprintf("... (and %d characters more)", n)
	}

	return strings.ToValidUTF8(head, "\uFFFD") + more
}

// call returns the response to a /tool command.
func call(req *model.Request, args string) []segment {
	name, input := args, ""
	if i := strings.IndexFunc(args, func(r rune) bool { return unicode.IsSpace(r) || r == '{' }); i >= 0 {
		name, input = args[:i], strings.TrimSpace(args[i:])
	}

	switch {
	case name == "":
		return text(howTo + ". " + offered(req))
	case !slices.ContainsFunc(req.Tools, func(t model.Tool) bool { return t.Name == name }):
		return text(fmt.Sprintf("There is no tool named %q. ", quote(name)) + offered(req))
	}

	var compact bytes.Buffer
	if input == "" {
		input = "{}"
	}

	if input[0] != '{' || json.Compact(&compact, []byte(input)) != nil {
		return text("That is not a JSON object. " + howTo)
	}

	return []segment{
		{kind: model.KindText, text: "I call the tool " + name + "."},
		{kind: model.KindToolInput, id: callID(req), name: name, text: compact.String()},
	}
}

func offered(req *model.Request) string {
	if len(req.Tools) == 0 {
		return "No tools are offered here."
	}

	names := make([]string, len(req.Tools))
	for i := range req.Tools {
		names[i] = req.Tools[i].Name
	}

	return "The tools are: " + strings.Join(names, ", ") + "."
}

// callID derives an id from the conversation, so that each call has a different id, even in the
// separate conversation of a subagent.
func callID(req *model.Request) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, req.System)
	_ = json.NewEncoder(h).Encode(req.Messages) // a hash takes all bytes
	return fmt.Sprintf("demo_%016x", h.Sum64())
}

// results returns a quotation of the tool results of the last message, "" if it has none.
func results(req *model.Request, last model.Message) string {
	var texts []string
	for i := range last.Content {
		b := &last.Content[i]
		if b.Type != model.BlockToolResult {
			continue
		}

		verb := "returned"
		if b.IsError {
			verb = "failed"
		}

		if strings.TrimSpace(b.Text) == "" {
			texts = append(texts, fmt.Sprintf("%s %s no output.", toolName(req, b.ID), verb))
			continue
		}

		texts = append(texts, fmt.Sprintf("%s %s: %s", toolName(req, b.ID), verb, quote(b.Text)))
	}

	return strings.Join(texts, "\n\n")
}

func toolName(req *model.Request, id string) string {
	for _, v := range slices.Backward(req.Messages) {
		for _, use := range v.ToolUses() {
			if use.ID == id {
				return use.Name
			}
		}
	}

	return "The tool"
}
