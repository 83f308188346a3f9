// Package label builds, signs and verifies the implicit label that GB 45438-2025 requires in the
// metadata of generated content. It has no state and no dependency outside the standard library.
// Decoding a label takes time and memory in proportion to its JSON, which the caller limits.
//
//	l, err := label.New(label.Generated, producer, produceID)
//	if err != nil {
//		return err
//	}
//	l = l.Sign(signingKey)
//	data, err := json.Marshal(l) // {"Label":"1","ContentProducer":"...", ...}
//
// [Label.Verify] reports whether a label is unchanged since it was signed with one of the given
// keys.
//
// A content producer is identified by a code of 27 characters, see [CheckProducer]. It contains the
// unified social credit code of a Chinese organization, see [CheckUSCC].
package label

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Certainty states how certain it is that content was generated: the value of Label.Label.
type Certainty string

// The kinds of GB 45438-2025.
const (
	Generated Certainty = "1" // the content is generated or synthesized
	Possible  Certainty = "2" // the content is possibly generated
	Suspected Certainty = "3" // the content is suspected to be generated
)

// Label is the implicit label of one content. Its JSON form has the fields in this order.
type Label struct {
	Label             Certainty `json:"Label"`
	ContentProducer   string    `json:"ContentProducer"` // see [CheckProducer]
	ProduceID         string    `json:"ProduceID"`       // identifies the content at its producer
	ReservedCode1     string    `json:"ReservedCode1"`   // the producer's signature: v1.<key id>.<base64url HMAC-SHA256>
	ContentPropagator string    `json:"ContentPropagator"`
	PropagateID       string    `json:"PropagateID"`
	ReservedCode2     string    `json:"ReservedCode2"`
}

// maxProduceID is the longest ProduceID in bytes: labels are part of every answer and of file
// metadata.
const maxProduceID = 256

// New returns an unsigned label of content that its producer is the first to publish: the
// propagator fields equal the producer's. It fails if the kind is unknown, [CheckProducer] fails,
// or produceID is empty, longer than 256 bytes or contains anything but printable characters.
func New(kind Certainty, producer, produceID string) (Label, error) {
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
func (p *parser) name() (string, bool) {
	var name string
	name, _ = p.next().(string)
	return name, bytes.HasSuffix(p.data[:p.decoder.InputOffset()], []byte(`"`+name+`"`))
}

// label reads an object after its {. The outer one may be the wrapper of a label.
func (p *parser) label(outer bool) (Label, error) {
	var l Label
	members := map[string]*string{
		"Label": (*string)(&l.Label), "ContentProducer": &l.ContentProducer, "ProduceID": &l.ProduceID, "ReservedCode1": &l.ReservedCode1,
		"ContentPropagator": &l.ContentPropagator, "PropagateID": &l.PropagateID, "ReservedCode2": &l.ReservedCode2,
	}
	wanted := len(members)
	var err error
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
		_ = encoder.Encode(field[1]) // a string always has a JSON form
		b.Truncate(b.Len() - 1)      // the newline of Encode
	}

	return b.Bytes()
}

// Errors of [Label.Verify].
var (
	ErrUnsigned   = errors.New("label has no signature")
	ErrMalformed  = errors.New("signature of the label is malformed")
	ErrUnknownKey = errors.New("label is signed with an unknown key")
	ErrMismatch   = errors.New("signature does not match the label")
)

// MinSecret is the smallest secret of a [Key] in bytes: the output of its hash.
const MinSecret = sha256.Size

// Key signs labels with HMAC-SHA256.
type Key struct {
	ID     string // ^[A-Za-z0-9_-]{1,64}$
	secret []byte
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// NewKey returns a key. It fails if the id does not have the form of [Key].ID or the secret is
// shorter than [MinSecret].
func NewKey(id string, secret []byte) (Key, error) {
	if !keyID.MatchString(id) {
		return Key{}, fmt.Errorf("label key id %q: must be 1 to 64 letters, digits, - and _", id)
	}

	if len(secret) < MinSecret {
		return Key{}, fmt.Errorf("label key %s: the secret has %d bytes, at least %d are required", id, len(secret), MinSecret)
	}

	return Key{ID: id, secret: secret}, nil
}

// String returns the id: a key never prints its secret.
func (k Key) String() string { return k.ID }

// GoString is String, for %#v.
func (k Key) GoString() string { return k.ID }

const signatureVersion = "v1"

func (k Key) sum(l Label) []byte {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write(l.signed())
	return mac.Sum(nil)
}

// Sign returns the label with the signature of the producer's fields as its ReservedCode1. The
// propagator fields are not signed: a later propagator replaces them.
func (l Label) Sign(k Key) Label {
	l.ReservedCode1 = signatureVersion + "." + k.ID + "." + base64.RawURLEncoding.EncodeToString(k.sum(l))
	return l
}

// KeyID returns the id of the key that signed the label, or "" if the label has no well-formed
// signature.
func (l Label) KeyID() string {
	id, _, _ := l.signature()
	return id
}

// signature returns the id of the key and the signature.
func (l Label) signature() (string, []byte, error) {
	if l.ReservedCode1 == "" {
		return "", nil, ErrUnsigned
	}

	parts := strings.Split(l.ReservedCode1, ".")
	if len(parts) != 3 || parts[0] != signatureVersion || !keyID.MatchString(parts[1]) {
		return "", nil, ErrMalformed
	}

	sum, err := base64.RawURLEncoding.DecodeString(parts[2])
	// DecodeString ignores line breaks and unused bits. Only one text is accepted for a signature.
	if err != nil || len(sum) != sha256.Size || base64.RawURLEncoding.EncodeToString(sum) != parts[2] {
		return "", nil, ErrMalformed
	}

	return parts[1], sum, nil
}

// Verify returns nil if one of the keys signed the label and the producer's fields are unchanged
// since. Its errors are [ErrUnsigned], [ErrMalformed], [ErrUnknownKey] and [ErrMismatch].
func (l Label) Verify(keys ...Key) error {
	kid, sum, err := l.signature()
	if err != nil {
		return err
	}

	for _, k := range keys {
		if k.ID == kid {
			if !hmac.Equal(sum, k.sum(l)) {
				return ErrMismatch
			}

			return nil
		}
	}

	return ErrUnknownKey
}

// usccDigits are the characters of a unified social credit code by their value: GB 32100-2015
// leaves out I, O, S, V and Z.
const usccDigits = "0123456789ABCDEFGHJKLMNPQRTUWXY"

// CheckUSCC returns an error unless code is a unified social credit code: 18 characters of GB
// 32100-2015, of which the last is the check digit (modulo 31, weights 3^i). Letters are upper
// case.
func CheckUSCC(code string) error {
	if len(code) != 18 {
		return fmt.Errorf("unified social credit code: has %d characters, must have 18", len(code))
	}

	sum, weight := 0, 1
	for i := range 17 {
		value := strings.IndexByte(usccDigits, code[i])
		if value < 0 {
			return fmt.Errorf("unified social credit code: character %d must be a digit or an upper-case letter other than I, O, S, V, Z", i+1)
		}

		sum += value * weight
		weight = weight * 3 % 31
	}

	if want := usccDigits[(31-sum%31)%31]; code[17] != want {
		return errors.New("unified social credit code: the check digit (the last character) does not match")
	}

	return nil
}

// Positions of a producer code.
const (
	producerLength = 27
	usccStart      = 4
	usccEnd        = 22
)

// CheckProducer returns an error unless code identifies a producer or propagator of generated
// content. It has 27 characters:
//
//	00 | 1 | 1 | unified social credit code (18) | 1 or 2 | 4 digits or upper-case letters
func CheckProducer(code string) error {
	switch {
	case len(code) != producerLength:
		return fmt.Errorf("content producer: has %d characters, must have %d", len(code), producerLength)
	case code[:usccStart] != "0011":
		return errors.New("content producer: must begin with 0011")
	case code[usccEnd] != '1' && code[usccEnd] != '2':
		return errors.New("content producer: character 23 must be 1 or 2")
	case strings.Trim(code[usccEnd+1:], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return errors.New("content producer: the last 4 characters must be digits or upper-case letters")
	}

	if err := CheckUSCC(code[usccStart:usccEnd]); err != nil {
		return fmt.Errorf("content producer: %w", err)
	}

	return nil
}

// ProducerUSCC returns the unified social credit code in a producer code that [CheckProducer]
// accepts.
func ProducerUSCC(code string) string {
	if len(code) != producerLength {
		return ""
	}

	return code[usccStart:usccEnd]
}
