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

	"github.com/seed93082962/agenthost/runtime/model"
)

const (
	// maxEcho bounds what is quoted of a message or a result, in runes.
	maxEcho = 1000

	intro = "This is the demo model: it needs no key and no network, and it knows nothing but how to echo."
	howTo = `To have a tool called, write its name and a JSON object with its input: /tool NAME {"key": "value"}`
)

// answer says what is to be sent, which follows from the last message.
func answer(req *model.Request) []segment {
	if len(req.Messages) == 0 {
		return text(intro)
	}
	last := req.Messages[len(req.Messages)-1]
	if results := results(req, last); results != "" {
		return text(results)
	}
	said := strings.TrimSpace(last.Text())
	if rest, ok := command(said, "/tool"); ok {
		return call(req, rest)
	}
	if rest, ok := command(said, "/think"); ok {
		return append([]segment{{kind: model.KindThinking, text: "The user wants to see me think about this: " + quote(rest)}},
			text(echo(rest))...)
	}
	return text(echo(said))
}

func text(s string) []segment { return []segment{{kind: model.KindText, text: s}} }

func echo(said string) string {
	if said == "" {
		return intro
	}
	return intro + " You wrote: " + quote(said)
}

// command reports whether said is that command, and what follows it.
func command(said, name string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(said, name)
	if !ok || rest != "" && !unicode.IsSpace(rune(rest[0])) {
		return "", false
	}
	return strings.TrimSpace(rest), true
}

// quote bounds what is echoed.
func quote(s string) string {
	n := 0
	for i := range s {
		if n == maxEcho {
			return strings.ToValidUTF8(s[:i], "\uFFFD") + fmt.Sprintf("... (and %d characters more)", utf8.RuneCountInString(s[i:]))
		}
		n++
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// call is the answer to a /tool command.
func call(req *model.Request, args string) []segment {
	name, input := args, ""
	if i := strings.IndexFunc(args, func(r rune) bool { return unicode.IsSpace(r) || r == '{' }); i >= 0 {
		name, input = args[:i], strings.TrimSpace(args[i:])
	}
	switch {
	case name == "":
		return text(howTo + ". " + offered(req))
	case !offers(req, name):
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

func offers(req *model.Request, name string) bool {
	for i := range req.Tools {
		if req.Tools[i].Name == name {
			return true
		}
	}
	return false
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

// callID makes an id from the whole conversation: another one for each call, also of a
// subagent's, whose conversation is its own.
func callID(req *model.Request) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, req.System)
	for i := range req.Messages {
		for j := range req.Messages[i].Content {
			b := &req.Messages[i].Content[j]
			fmt.Fprintf(h, "\x00%s\x00%s\x00%s\x00%s", b.Type, b.Text, b.ID, b.Input)
		}
	}
	return fmt.Sprintf("demo_%016x", h.Sum64())
}

// results quotes the tool results of the last message, "" if it has none.
func results(req *model.Request, last model.Message) string {
	var said []string
	for i := range last.Content {
		b := &last.Content[i]
		if b.Type != model.BlockToolResult {
			continue
		}
		verb := "answered"
		if b.IsError {
			verb = "failed"
		}
		if strings.TrimSpace(b.Text) == "" {
			said = append(said, fmt.Sprintf("%s %s without a word.", toolName(req, b.ID), verb))
			continue
		}
		said = append(said, fmt.Sprintf("%s %s: %s", toolName(req, b.ID), verb, quote(b.Text)))
	}
	return strings.Join(said, "\n\n")
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
