package upstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

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
//
// A message that is a document itself is read too. The HTTP status of the error is in one of
// several members if it is not the code.
//
// It returns an empty fault for anything else. The input is at most one event or 64 KiB of a body,
// and is decoded a fixed number of times.
func ParseFault(raw []byte) *Fault { return parseFault(raw, maxParse) }

// document is every member of the shapes above.
type document struct {
	Error, Errors, Message, Detail, Type, Code, Object json.RawMessage

	Status        json.RawMessage // Azure, NVIDIA
	RawStatusCode json.RawMessage `json:"raw_status_code"` // Mistral
	HTTPCode      json.RawMessage `json:"http_code"`       // MiniMax

	Metadata struct {
		Raw json.RawMessage `json:"raw"`
	} `json:"metadata"`
	BaseResp struct {
		StatusCode json.RawMessage `json:"status_code"`
		StatusMsg  string          `json:"status_msg"`
	} `json:"base_resp"`
}

// first returns the first element of an array, as Gemini writes an error, or any other value
// unchanged.
func first(raw []byte) []byte {
	var list []json.RawMessage
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return raw
	}
	return list[0]
}

// decodeDocument reports whether raw is a JSON object. Members of another type than expected are
// left out.
func decodeDocument(raw []byte) (doc document, ok bool) {
	err := json.Unmarshal(raw, &doc)
	if mismatch := new(json.UnmarshalTypeError); errors.As(err, &mismatch) {
		return doc, mismatch.Field != ""
	}
	return doc, err == nil
}

func parseFault(raw []byte, depth int) *Fault {
	doc, ok := decodeDocument(first(raw))
	if depth == 0 || !ok {
		return &Fault{}
	}
	if isObject(doc.Error) {
		return parseFault(doc.Error, depth-1)
	}
	f := &Fault{Type: scalar(doc.Type), Code: scalar(doc.Code), Status: doc.status()}
	for _, raw := range []json.RawMessage{doc.Message, doc.Error, doc.Detail, doc.Errors} {
		if f.Message == "" {
			f.Message = reason(raw, depth)
		}
	}
	if code := scalar(doc.BaseResp.StatusCode); code != "" && code != "0" {
		f.Type, f.Code, f.Message = miniMaxType(code), code, doc.BaseResp.StatusMsg
	}
	if inner := innerReason(doc.Metadata.Raw, depth); inner != "" && !strings.Contains(f.Message, inner) {
		f.Message = strings.TrimPrefix(f.Message+": "+inner, ": ")
	}
	return f
}

// status returns the HTTP status of the error, 0 if no member has one.
func (d *document) status() int {
	for _, raw := range []json.RawMessage{d.Code, d.RawStatusCode, d.HTTPCode, d.Status} {
		if n, err := strconv.Atoi(scalar(raw)); err == nil && n >= http.StatusBadRequest && n < 600 {
			return n
		}
	}
	return 0
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

// reason returns the text of an error message, which is a string, a number, an object or a list of
// objects.
func reason(raw json.RawMessage, depth int) string {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || depth == 0:
		return ""
	case raw[0] == '{':
		return parseFault(raw, depth-1).Message
	case raw[0] == '[':
		return fieldReasons(raw)
	}
	return textReason(scalar(raw), depth)
}

// textReason returns a text, or the reason in it if the text is a document itself.
func textReason(text string, depth int) string {
	if strings.HasPrefix(text, "{") {
		return cmp.Or(parseFault([]byte(text), depth-1).Message, text)
	}
	return text
}

// fieldReasons returns the text of a list of errors, as FastAPI and pydantic write them for fields,
// and Cloudflare in general.
func fieldReasons(raw json.RawMessage) string {
	var fields []struct {
		Loc     []any  `json:"loc"`
		Msg     string `json:"msg"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	var texts []string
	for _, field := range fields {
		text := cmp.Or(field.Msg, field.Message)
		if text == "" {
			continue
		}
		place := make([]string, len(field.Loc))
		for i, part := range field.Loc {
			place[i] = fmt.Sprint(part)
		}
		if len(place) > 0 {
			text = strings.Join(place, ".") + ": " + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// innerReason returns the text of the provider's error that a gateway passes on, as text or as
// JSON.
func innerReason(raw json.RawMessage, depth int) string {
	if text := scalar(raw); text != "" {
		return textReason(text, depth)
	}
	return reason(raw, depth)
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}

// scalar returns the text of a JSON string or number, "" for any other value.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// FaultIn returns the fault in an event of a stream, or nil if there is none. Servers mark it by
// the type of the event, by a member "error", or by the type or status of the document.
func FaultIn(ev sse.Event) *Fault {
	doc, ok := decodeDocument(first(ev.Data))
	code := scalar(doc.BaseResp.StatusCode)
	switch {
	case ev.Type == "error":
	case !ok:
		return nil
	case len(doc.Error) > 0 && !emptyValue(doc.Error):
	case scalar(doc.Object) == "error", scalar(doc.Type) == "error":
	case code != "" && code != "0":
	default:
		return nil
	}
	f := ParseFault(ev.Data)
	if !ok {
		f.Message = string(ev.Data) // plain text
	}
	return f
}

func emptyValue(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "null", "false", `""`, "{}":
		return true
	}
	return false
}

// maxErrorLine bounds a line that reports an error outside of the events of a stream.
const maxErrorLine = 4 << 10

// errorLine returns the rest of a line "error: ..." in data, or nil if there is none. llama.cpp
// writes errors in the middle of a stream under this name, which the event stream format ignores.
// The line begins data or follows a line break.
func errorLine(data []byte) []byte {
	const name = "error:"
	i := 0
	if !bytes.HasPrefix(data, []byte(name)) {
		if i = bytes.Index(data, []byte("\n"+name)) + 1; i == 0 {
			return nil
		}
	}
	line := data[i+len(name):]
	if end := bytes.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end]
	}
	if len(line) > maxErrorLine {
		line = line[:maxErrorLine]
	}
	return bytes.Clone(line)
}
