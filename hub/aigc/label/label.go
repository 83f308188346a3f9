package label

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind states how certain it is that content was generated: the value of Label.Label.
type Kind string

// The kinds of GB 45438-2025.
const (
	Generated Kind = "1" // the content is generated or synthesized
	Possible  Kind = "2" // the content is possibly generated
	Suspected Kind = "3" // the content is suspected to be generated
)

// Label is the implicit label of one content. Its JSON form has the fields in this order.
type Label struct {
	Label             Kind   `json:"Label"`
	ContentProducer   string `json:"ContentProducer"` // see [CheckProducer]
	ProduceID         string `json:"ProduceID"`       // identifies the content at its producer
	ReservedCode1     string `json:"ReservedCode1"`   // the producer's signature: v1.<key id>.<base64url HMAC-SHA256>
	ContentPropagator string `json:"ContentPropagator"`
	PropagateID       string `json:"PropagateID"`
	ReservedCode2     string `json:"ReservedCode2"`
}

// maxProduceID is the longest ProduceID in bytes: labels are part of every answer and of file
// metadata.
const maxProduceID = 256

// New returns an unsigned label of content that its producer is the first to publish: the
// propagator fields equal the producer's. It fails if the kind is unknown, [CheckProducer] fails,
// or produceID is empty, longer than 256 bytes or contains anything but printable characters.
func New(kind Kind, producer, produceID string) (Label, error) {
	if kind != Generated && kind != Possible && kind != Suspected {
		return Label{}, fmt.Errorf("label kind %q: must be 1, 2 or 3", string(kind))
	}
	if err := CheckProducer(producer); err != nil {
		return Label{}, err
	}
	if err := checkID(produceID); err != nil {
		return Label{}, fmt.Errorf("produce id: %w", err)
	}
	return Label{
		Label: kind, ContentProducer: producer, ProduceID: produceID,
		ContentPropagator: producer, PropagateID: produceID,
	}, nil
}

func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty")
	case len(id) > maxProduceID:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(id), maxProduceID)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("contains a character that is not printable")
	}
	return nil
}

// Parse returns the label in data: the label object itself, or an object with the label as its
// member "aigc" or "AIGC", as file metadata has it. Unknown members are ignored.
func Parse(data []byte) (Label, error) {
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(data, &outer); err != nil {
		return Label{}, fmt.Errorf("parse label: %w", err)
	}
	for _, name := range []string{"AIGC", "aigc"} {
		if inner, ok := outer[name]; ok {
			data = inner
			break
		}
	}
	var l *Label
	if err := json.Unmarshal(data, &l); err != nil {
		return Label{}, fmt.Errorf("parse label: %w", err)
	}
	if l == nil || l.Label == "" {
		return Label{}, errors.New("parse label: the object has no Label")
	}
	return *l, nil
}

// signed returns the text that a signature covers: the producer's three fields in their JSON form.
func (l Label) signed() []byte {
	var b bytes.Buffer
	for i, field := range [...][2]string{
		{"Label", string(l.Label)}, {"ContentProducer", l.ContentProducer}, {"ProduceID", l.ProduceID},
	} {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:", field[0])
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(field[1]) //nolint:errchkjson // a string always has a JSON form
		b.Truncate(b.Len() - 1)      // the newline of Encode
	}
	return b.Bytes()
}
