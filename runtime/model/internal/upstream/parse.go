package upstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed93082962/agenthost/sse"
)

// Fault is an error that upstream reports, in the body of an error status or in the middle of a
// stream. The [Client] classifies it and makes its message safe.
type Fault struct {
	Type    string
	Code    string // a number is in digits
	Status  int    // the HTTP status that the document has, 0 for none
	Message string
}

func (f *Fault) Error() string { return "upstream returned an error of type " + f.Type }

// maxParse bounds the nesting of documents inside documents that ParseFault follows.
const maxParse = 4

// ParseFault reads the error shapes of known servers:
//
//	{"error":{"type","code","message"}}   OpenAI, Anthropic; also in an array or without "error"
//	{"error":"text"}, {"message":"text"}, {"detail":"text"}
//	{"message":{"detail":[{"loc","msg"}]}}, {"detail":[{"loc","msg"}]}   Mistral, FastAPI
//	{"error":{"message","metadata":{"raw"}}}   OpenRouter: raw is the error of the provider behind it
//	{"base_resp":{"status_code","status_msg"}}   MiniMax
//	{"errors":[{"code","message"}]}   Cloudflare
//	{"error_message","error_type"}   DeepInfra
//
// A message that is a document itself is read too. The HTTP status of the error is in one of
// several members if it is not the code.
//
// It returns an empty fault for anything else. The input is at most one event or 64 KiB of a body,
// and each part of it is decoded at most as often as documents are nested.
func ParseFault(raw []byte) *Fault {
	var v any
	_ = json.Unmarshal(raw, &v) // nil for anything but JSON
	return newFault(v, maxParse)
}

// document returns an object, or the first one in an array, as Gemini writes an error.
func document(v any) map[string]any {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}

	doc, _ := v.(map[string]any)
	return doc
}

func newFault(v any, depth int) *Fault {
	doc := document(v)
	if depth == 0 || doc == nil {
		return &Fault{}
	}

	if inner, ok := doc["error"].(map[string]any); ok {
		return newFault(inner, depth-1)
	}

	f := &Fault{Type: cmp.Or(scalar(doc["error_type"]), scalar(doc["type"])), Code: scalar(doc["code"])}
	for _, name := range []string{"code", "raw_status_code", "http_code", "status"} {
		if n, err := strconv.Atoi(scalar(doc[name])); err == nil && n >= http.StatusBadRequest && n < 600 && f.Status == 0 {
			f.Status = n
		}
	}

	for _, name := range []string{"message", "error_message", "error", "detail", "errors"} {
		if f.Message == "" {
			f.Message = reason(doc[name], depth)
		}
	}

	if base, code := miniMax(doc); code != "" {
		f.Type = miniMaxType(code)
		f.Code = code
		f.Message = scalar(base["status_msg"])
	}

	metadata, _ := doc["metadata"].(map[string]any)
	if inner := reason(metadata["raw"], depth); inner != "" && !strings.Contains(f.Message, inner) {
		f.Message = strings.TrimPrefix(f.Message+": "+inner, ": ")
	}

	return f
}

// miniMax returns the status of a response of MiniMax and its code, "" for success.
func miniMax(doc map[string]any) (map[string]any, string) {
	base, _ := doc["base_resp"].(map[string]any)
	code := scalar(base["status_code"])
	if code == "0" {
		code = ""
	}

	return base, code
}

// miniMaxType returns the type of OpenAI's errors for a code of MiniMax.
func miniMaxType(code string) string {
	switch code {
	case "1002", "1008", "1041":
		return "rate_limit_error"
	case "1004", "2049":
		return "authentication_error"
	case "1039":
		return "context_length_exceeded"
	case "1000", "1013", "1024", "1033":
		return "server_error"
	case "1001":
		return "timeout_error"
	}

	return "invalid_request_error"
}

// reason returns the text of an error message: a string or a number, a document, which may be
// inside a string, or a list of errors, as FastAPI and pydantic write them for fields and
// Cloudflare in general.
func reason(v any, depth int) string {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "{") && depth > 0 {
			var inner any
			_ = json.Unmarshal([]byte(v), &inner) // nil for a text that only begins with a brace
			return cmp.Or(newFault(inner, depth-1).Message, v)
		}

		return v
	case float64:
		return scalar(v)
	case map[string]any:
		return newFault(v, depth-1).Message
	case []any:
		var texts []string
		for _, e := range v {
			field, _ := e.(map[string]any)
			text := cmp.Or(scalar(field["msg"]), scalar(field["message"]))
			if text == "" {
				continue
			}

			place, _ := field["loc"].([]any)
			for i, part := range slices.Backward(place) {
				separator := "."
				if i == len(place)-1 {
					separator = ": "
				}

				text = fmt.Sprint(part) + separator + text
			}

			texts = append(texts, text)
		}

		return strings.Join(texts, "; ")
	}

	return ""
}

// scalar returns a string, or a number in digits, "" for any other value.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}

	return ""
}

// FaultIn returns the fault in an event of a stream, or nil if there is none. Servers mark it by
// the type of the event, by a member "error", or by the type or status of the document.
func FaultIn(ev sse.Event) *Fault {
	if ev.Type != "error" && !bytes.Contains(ev.Data, []byte("error")) && !bytes.Contains(ev.Data, []byte("base_resp")) {
		return nil // nearly every event
	}

	var v any
	_ = json.Unmarshal(ev.Data, &v) // nil for anything but JSON
	doc := document(v)
	_, code := miniMax(doc)
	marked := ev.Type == "error" || scalar(doc["object"]) == "error" || scalar(doc["type"]) == "error"
	if !marked && code == "" && scalar(doc["error_message"]) == "" {
		switch e := doc["error"].(type) {
		case nil:
			return nil
		case []any:
			if len(e) == 0 {
				return nil
			}
		case map[string]any:
			if len(e) == 0 {
				return nil
			}
		default:
			if e == false || e == "" || e == 0.0 {
				return nil
			}
		}
	}

	f := newFault(v, maxParse)
	if doc == nil {
		f.Message = string(ev.Data) // plain text
	}

	return f
}

// Interrupted returns the fault of a response with a finish reason that is a failure, nil for any
// other. Servers differ in its spelling and its context, such as "function_call_filter:
// MALFORMED_FUNCTION_CALL".
func Interrupted(reason string) *Fault {
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}

		return -1
	}, reason)
	for _, failure := range failures {
		if strings.Contains(letters, failure) {
			return &Fault{Type: "server_error", Message: "upstream interrupted its response: " + reason}
		}
	}

	return nil
}

// failures are the letters of finish reasons of failed responses.
var failures = []string{
	"error", "abort", "cancel", "interrupt", "timeout", "timedout", "overload", "insufficientsystemresource",
	"malformed", "unexpectedtoolcall", "toomanytoolcalls", "missingthoughtsignature", // Gemini
}

// maxErrorLine bounds a line that reports an error outside of the events of a stream.
const maxErrorLine = 4 << 10

// errorLine finds a line "error: ..." in a stream. llama.cpp writes errors in the middle of a
// stream under this name, which the event stream format ignores. Its zero value is ready for use.
type errorLine struct {
	at   int    // bytes of the name that the current line begins with; -1: it is another line
	text []byte // the latest line, without the name; nil if there is none
}

const errorName = "error:"

// write takes the next bytes of the stream, which may end anywhere in a line.
func (l *errorLine) write(data []byte) {
	for len(data) > 0 {
		switch end := bytes.IndexByte(data, '\n'); {
		case l.at >= 0 && l.at < len(errorName) && data[0] == errorName[l.at]:
			data = data[1:]
			if l.at++; l.at == len(errorName) {
				l.text = []byte{}
			}
		case l.at == len(errorName):
			line := data
			if end >= 0 {
				line = data[:end]
			}

			l.text = append(l.text, line[:min(len(line), maxErrorLine-len(l.text))]...)
			data = data[len(line):]
			if end >= 0 {
				l.at = -1
			}
		case end >= 0:
			data = data[end+1:]
			l.at = 0
		default:
			l.at = -1
			return
		}
	}
}
