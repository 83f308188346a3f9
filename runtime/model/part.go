package model

// Kind is the kind of a [Part]. The comments name the fields that it uses.
type Kind uint8

const (
	KindText      Kind = iota + 1 // Text: an increment of the text of the response
	KindThinking                  // Text: an increment of the model's thinking
	KindSignature                 // Text: an increment of the signature of the thinking block at Index
	KindRedacted                  // Text: a complete redacted thinking block, opaque
	KindToolUse                   // ID, Name: a tool call begins
	KindToolInput                 // Text: an increment of the JSON input of the tool call at Index
	KindUsage                     // Usage: totals of the response so far; the latest one counts
	KindStop                      // StopReason: the response is complete

	KindThinkingField   // Name: Block.Field of the thinking block at Index
	KindThinkingDetails // Text: Block.Details of the thinking block at Index, complete
	KindToolExtra       // Text: Block.Extra of the tool call at Index, complete; the latest one counts
)

// Part is one streamed part of a response.
type Part struct {
	Kind Kind

	// More reports whether the next part is already in memory. A reader that forwards parts may
	// delay its flush until then.
	More bool

	// Index identifies the content block. The blocks of a response are ordered by their first
	// parts, and parts of several blocks may interleave.
	Index int

	Text       string
	ID         string // of a tool call, as upstream sent it
	Name       string // of the tool
	StopReason string
	Usage      Usage
}
