package model

// Kind says what a [Part] carries.
type Kind uint8

const (
	KindText      Kind = iota + 1 // Text: an increment of the answer's text
	KindThinking                  // Text: an increment of the model's thinking
	KindSignature                 // Text: an increment of the signature of the thinking block at Index
	KindRedacted                  // Text: one whole redacted thinking block, opaque
	KindToolUse                   // ID, Name: a tool call begins
	KindToolInput                 // Text: an increment of the JSON input of the tool call at Index
	KindUsage                     // Usage: totals of this answer so far; the latest one counts
	KindStop                      // StopReason: the answer is complete
)

// Part is one streamed piece of an answer.
type Part struct {
	Kind Kind

	// More tells that the next part is already in memory, so that a reader who passes parts
	// on may wait for it before it flushes. False when upstream has to be waited for.
	More bool

	// Index tells parts of different content blocks apart. Blocks of one answer are ordered
	// by the first part of each, and parts of several may interleave.
	Index int

	Text       string
	ID         string // of a tool call, as upstream named it
	Name       string // of the tool
	StopReason string
	Usage      Usage
}
