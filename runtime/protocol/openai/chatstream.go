package openai

import (
	"context"
	"encoding/json"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/sse"
)

// chatStream sends the chunks of a response.
type chatStream struct {
	*chat
	cancel context.CancelFunc
	usage  bool // the last chunk has it
	events *sse.Stream
	queued bool

	head, tail []byte // of the event of a chunk, around its delta and its finish reason
	frame      []byte // the present one
	before     bool   // a message before the present one has text
	sent       int    // bytes of the text of the present message
}

func (s *chatStream) begin() error {
	events, err := s.openStream(s.cancel)
	if err != nil {
		return err
	}

	s.events = events
	s.head = append([]byte("data: "), s.opening("choices\":[{\"index\":0,\"delta\":")...)
	s.tail = []byte("}]}\n\n")
	if s.usage {
		s.tail = []byte("}],\"usage\":null}\n\n")
	}

	s.chunk([]byte(`{"role":"assistant","content":"","refusal":null}`), "")
	s.flush()
	return nil
}

// opening returns the beginning of a chunk, up to and with a member.
func (s *chatStream) opening(member string) []byte {
	head := jsonlimit.AppendString([]byte(`{"id":`), s.id())
	created, _ := json.Marshal(s.created) // a number
	head = append(append(head, `,"object":"chat.completion.chunk","created":`...), created...)
	head = jsonlimit.AppendString(append(head, `,"model":`...), s.agentID)
	return append(append(head, `,"`...), member...)
}

// chunk queues a chunk with a delta, and a finish reason if it is not empty.
func (s *chatStream) chunk(delta []byte, finish string) {
	s.frame = append(append(s.frame[:0], s.head...), delta...)
	s.queue(finish)
}

// queue adds the end of a chunk to frame, and queues it. JSON has no line breaks.
func (s *chatStream) queue(finish string) {
	frame := append(s.frame, `,"logprobs":null,"finish_reason":`...)
	if finish == "" {
		frame = append(frame, "null"...)
	} else {
		frame = jsonlimit.AppendString(frame, finish)
	}

	s.frame = append(frame, s.tail...)
	s.queued = true
	_ = s.events.QueueEvents(s.frame) // OnError handles the error
}

// text sends an increment of the present message.
func (s *chatStream) text(text string) {
	if text == "" {
		return
	}

	if s.before && s.sent == 0 {
		s.content(paragraph)
	}

	s.sent += len(text)
	s.content(text)
}

func (s *chatStream) content(text string) {
	frame := append(append(s.frame[:0], s.head...), `{"content":`...)
	s.frame = append(jsonlimit.AppendString(frame, text), '}')
	s.queue("")
}

// message ends the present message, and sends the text of it that had no increment.
func (s *chatStream) message(text string) {
	if s.sent < len(text) {
		s.text(text[s.sent:])
	}

	s.before = s.before || s.sent > 0
	s.sent = 0
}

func (s *chatStream) flush() {
	if s.queued {
		s.queued = false
		_ = s.events.Flush() // OnError handles the error
	}
}

// end sends the end of a run, and closes the stream. A stream that fails ends with an error, and
// has no [DONE].
func (s *chatStream) end(err error) error {
	defer func() { _ = s.events.Close() }() // OnError has handled the error
	if err != nil {
		s.queueJSON(s.s.failureOf(s.w, err).body())
		return nil
	}

	if refusal := s.refusal(); refusal != nil {
		s.delta(struct {
			Refusal string `json:"refusal"`
		}{*refusal})
	}

	if s.waits() {
		s.delta(struct {
			ToolCalls []chatCall `json:"tool_calls"`
		}{s.calls(true)})
	}

	if labels, err := httpapi.Marshal(s.labels); err == nil && len(s.labels) > 0 {
		s.tail = append(append([]byte(`}],"metadata":`), labels...), s.tail[len("}]"):]...)
	}

	s.chunk([]byte("{}"), s.finishReason())
	if s.usage {
		usage, err := httpapi.Marshal(chatUsageOf(s.spent.Usage))
		if err == nil {
			_ = s.events.Queue(sse.Event{Data: append(append(s.opening(`choices":[],"usage":`), usage...), '}')})
		}
	}

	_ = s.events.Queue(sse.Event{Data: []byte("[DONE]")})
	return nil
}

// delta queues a chunk with a delta of structs and strings.
func (s *chatStream) delta(v any) {
	if data, err := httpapi.Marshal(v); err == nil {
		s.chunk(data, "")
	}
}

func (s *chatStream) queueJSON(v any) {
	if data, err := httpapi.Marshal(v); err == nil {
		_ = s.events.Queue(sse.Event{Data: data})
	}
}
