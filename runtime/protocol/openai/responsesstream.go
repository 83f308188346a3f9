package openai

import (
	"strconv"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/sse"
)

// sink receives the events of a response.
type sink interface {
	// Queue adds an event, which is sent with the next Flush. data is JSON in one line, and is valid
	// until Queue returns. A failure cancels the run.
	Queue(name string, data []byte)
	// QueueFrame is Queue with an event that is encoded for a stream. Its data begins at an offset.
	QueueFrame(frame []byte, data int)
	Flush()
}

// eventStream is a sink that sends server-sent events.
type eventStream struct {
	*sse.Stream
	frame []byte // of the present event
}

// Queue implements sink. JSON has no line breaks: an encoder that looks for them would take as long
// as all else that is done for a token.
func (s *eventStream) Queue(name string, data []byte) {
	s.frame = appendFrame(s.frame[:0], name, data)
	s.QueueFrame(s.frame, 0)
}

// QueueFrame implements sink.
func (s *eventStream) QueueFrame(frame []byte, _ int) { _ = s.QueueEvents(frame) } // OnError handles the error

// Flush implements sink.
func (s *eventStream) Flush() { _ = s.Stream.Flush() } // OnError handles the error

// appendFrame appends an event, encoded for a stream.
func appendFrame(dst []byte, name string, data []byte) []byte {
	return append(append(beginFrame(dst, name), data...), "\n\n"...)
}

// beginFrame appends the beginning of an event, up to its data.
func beginFrame(dst []byte, name string) []byte {
	return append(append(append(dst, "event: "...), name...), "\ndata: "...)
}

// responseStream sends the events of a response. Without a stream, it sends nothing.
type responseStream struct {
	events   sink // nil without a stream, and before the run has begun
	sequence int  // of the next event
	index    int  // of the present item, in the output
	queued   bool

	// Of the open item.
	head  []byte // the beginning of the encoded events with an increment
	begin int    // of their data
	frame []byte // the present one
}

// itemEvent is an event about an item. Its type says which fields it has.
type itemEvent struct {
	Type         string     `json:"type"`
	Sequence     int        `json:"sequence_number"`
	OutputIndex  int        `json:"output_index"`
	ItemID       string     `json:"item_id,omitempty"`
	ContentIndex *int       `json:"content_index,omitempty"` // 0: an item has one part
	Item         *item      `json:"item,omitempty"`
	Part         *itemPart  `json:"part,omitempty"`
	Text         *string    `json:"text,omitempty"`
	LogProbs     []struct{} `json:"logprobs,omitzero"`
	Delta        *string    `json:"delta,omitempty"`
	Arguments    *string    `json:"arguments,omitempty"`
	Refusal      *string    `json:"refusal,omitempty"`
}

func (s *responseStream) streams() bool { return s.events != nil }

// response sends events with the whole response.
func (s *responseStream) response(r *resource, names ...string) {
	whole, err := httpapi.Marshal(r)
	if err != nil || s.events == nil {
		return // structs of strings and numbers can be encoded
	}

	for _, name := range names {
		data := jsonlimit.AppendString([]byte(`{"type":`), name)
		data = strconv.AppendInt(append(data, `,"sequence_number":`...), int64(s.sequence), 10)
		s.queue(name, append(append(append(data, `,"response":`...), whole...), '}'))
	}
}

func (s *responseStream) item(name string, e itemEvent) {
	e.Type, e.Sequence, e.OutputIndex = name, s.sequence, s.index
	s.send(name, e)
}

func (s *responseStream) send(name string, v any) {
	data, err := httpapi.Marshal(v)
	if err != nil || s.events == nil {
		return // structs of strings and numbers can be encoded
	}

	s.queue(name, data)
}

func (s *responseStream) queue(name string, data []byte) {
	s.sequence++
	s.queued = true
	s.events.Queue(name, data)
}

func (s *responseStream) flush() {
	if s.queued {
		s.queued = false
		s.events.Flush()
	}
}

// added sends the beginning of an item.
func (s *responseStream) added(i *item) {
	if s.events == nil {
		return
	}

	s.item("response.output_item.added", itemEvent{Item: i})
	switch i.Type {
	case typeMessage, typeReasoning:
		part := i.part("")
		s.item("response.content_part.added", itemEvent{ItemID: i.ID, ContentIndex: new(int), Part: &part})
		s.beginDeltas(i)
	case typeCall:
		s.item("response.mcp_call.in_progress", itemEvent{ItemID: i.ID})
	}
}

// deltaNames are the events of increments, and doneNames those after the last one.
var (
	deltaNames = map[string]string{typeMessage: "response.output_text.delta", typeReasoning: "response.reasoning.delta"}
	doneNames  = map[string]string{typeMessage: "response.output_text.done", typeReasoning: "response.reasoning.done"}
)

// beginDeltas encodes the beginning of the events with an increment of an item, up to the sequence
// number.
func (s *responseStream) beginDeltas(i *item) {
	head := beginFrame(s.head[:0], deltaNames[i.Type])
	s.begin = len(head)
	head = jsonlimit.AppendString(append(head, `{"type":`...), deltaNames[i.Type])
	head = jsonlimit.AppendString(append(head, `,"item_id":`...), i.ID)
	head = strconv.AppendInt(append(head, `,"output_index":`...), int64(s.index), 10)
	s.head = append(head, `,"content_index":0,"sequence_number":`...)
}

// delta sends an increment of the open item. There is one for each token.
func (s *responseStream) delta(text string) {
	if s.events == nil {
		return
	}

	frame := strconv.AppendInt(append(s.frame[:0], s.head...), int64(s.sequence), 10)
	frame = jsonlimit.AppendString(append(frame, `,"delta":`...), text)
	s.frame = append(frame, "}\n\n"...)
	s.sequence++
	s.queued = true
	s.events.QueueFrame(s.frame, s.begin)
}

// done sends the end of an item.
func (s *responseStream) done(i *item) {
	if s.events == nil {
		return
	}

	switch i.Type {
	case typeMessage, typeReasoning:
		part := i.Content[0]
		s.item(doneNames[i.Type], itemEvent{ItemID: i.ID, ContentIndex: new(int), Text: part.Text, LogProbs: part.LogProbs})
		s.item("response.content_part.done", itemEvent{ItemID: i.ID, ContentIndex: new(int), Part: &part})
	case typeFunction:
		s.item("response.function_call_arguments.delta", itemEvent{ItemID: i.ID, Delta: i.Arguments})
		s.item("response.function_call_arguments.done", itemEvent{ItemID: i.ID, Arguments: i.Arguments})
	case typeCall:
		s.item("response.mcp_call_arguments.done", itemEvent{ItemID: i.ID, Arguments: i.Arguments})
		s.item("response.mcp_call."+i.Status, itemEvent{ItemID: i.ID})
	}

	s.item("response.output_item.done", itemEvent{Item: i})
	s.index++
}
