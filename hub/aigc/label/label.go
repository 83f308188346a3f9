package label

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// ErrForm means that a text contains a label that programs may read differently: a member that is
// missing, repeated, unknown or spelled differently, or more than one label.
var ErrForm = errors.New("label does not have each member exactly once")

// Parse returns the label in data: the label object itself, or an object with the label as its only
// member "aigc" or "AIGC". A label has its seven members, all of them strings, each once and in
// exactly that spelling, without escapes, and no other members. The error is [ErrForm] for any
// other object with a member of a label.
func Parse(data []byte) (Label, error) {
	p := parser{data: data, decoder: json.NewDecoder(bytes.NewReader(data))}
	if !utf8.Valid(data) || !json.Valid(data) || p.next() != json.Delim('{') {
		return Label{}, errors.New("parse label: the text is not a JSON object")
	}
	l, err := p.label(true)
	if err != nil {
		return Label{}, fmt.Errorf("parse label: %w", err)
	}
	return l, nil
}

// parser reads tokens of valid JSON.
type parser struct {
	data    []byte
	decoder *json.Decoder
}

func (p *parser) next() json.Token {
	token, _ := p.decoder.Token() // the text is valid
	return token
}

// name returns the name of the next member, and whether it is written without escapes.
func (p *parser) name() (name string, plain bool) {
	name, _ = p.next().(string)
	return name, bytes.HasSuffix(p.data[:p.decoder.InputOffset()], []byte(`"`+name+`"`))
}

// label reads an object after its {. The outer one may be the wrapper of a label.
func (p *parser) label(outer bool) (l Label, err error) {
	members := map[string]*string{
		"Label": (*string)(&l.Label), "ContentProducer": &l.ContentProducer, "ProduceID": &l.ProduceID, "ReservedCode1": &l.ReservedCode1,
		"ContentPropagator": &l.ContentPropagator, "PropagateID": &l.PropagateID, "ReservedCode2": &l.ReservedCode2,
	}
	wanted := len(members)
	for p.decoder.More() {
		name, plain := p.name()
		target := members[name]
		value := p.next()
		if !plain {
			return Label{}, ErrForm
		}
		if outer && (name == "aigc" || name == "AIGC") && len(members) == wanted && value == json.Delim('{') {
			if l, err = p.label(false); err == nil && p.decoder.More() {
				err = ErrForm
			}
			return l, err
		}
		text, isText := value.(string)
		switch {
		case target != nil && isText:
			*target = text
			delete(members, name)
		case outer && len(members) == wanted && !slices.ContainsFunc(slices.Collect(maps.Keys(members)), func(m string) bool { return strings.EqualFold(m, name) }):
			return Label{}, errors.New("the object has no label")
		default:
			return Label{}, ErrForm
		}
	}
	p.next() // }
	switch len(members) {
	case 0:
		return l, nil
	case wanted:
		return Label{}, errors.New("the object has no label")
	}
	return Label{}, ErrForm
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
