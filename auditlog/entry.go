package auditlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Entry is one entry of a log. In its JSON the id is a decimal string, because numbers above 2^53-1
// lose precision, detail is an object or null, and createdAt is in UTC with six digits of a second.
type Entry struct {
	ID         uint64          `json:"id,string"`
	TenantID   string          `json:"tenantId"`
	UserID     string          `json:"userId"`
	UserName   string          `json:"userName"`
	Category   string          `json:"category"`
	Action     string          `json:"action"`
	TargetType string          `json:"targetType"`
	TargetID   string          `json:"targetId"`
	TargetName string          `json:"targetName"`
	Status     Status          `json:"status"`
	Detail     json.RawMessage `json:"detail"` // the exact text that was hashed; nil without a detail
	RemoteIP   string          `json:"remoteIp"`
	UserAgent  string          `json:"userAgent"`
	CreatedAt  time.Time       `json:"createdAt"` // microseconds

	// Hash is the hash of the entry, 32 bytes. Exports contain it, pages do not.
	Hash []byte `json:"-"`
}

// timeLayout always has six digits, so that texts sort like times.
const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

// MarshalJSON implements [json.Marshaler].
func (e Entry) MarshalJSON() ([]byte, error) { return e.marshal("") }

// UnmarshalJSON implements [json.Unmarshaler]. Also lines of an export are entries.
func (e *Entry) UnmarshalJSON(b []byte) error {
	type fields Entry
	in := struct {
		fields
		Hash string `json:"hash"`
	}{}
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("decode audit entry: %w", err)
	}

	*e = Entry(in.fields)
	if string(e.Detail) == "null" {
		e.Detail = nil
	}

	if in.Hash == "" {
		return nil
	}

	hash, err := hex.DecodeString(in.Hash)
	if err != nil {
		return fmt.Errorf("decode audit entry: %w", err)
	}

	e.Hash = hash
	return nil
}

// AppendNDJSON appends a line of an export: the JSON of the entry with its hexadecimal hash as the
// last field.
func (e Entry) AppendNDJSON(b []byte) ([]byte, error) {
	line, err := e.marshal(hex.EncodeToString(e.Hash))
	if err != nil {
		return b, fmt.Errorf("encode audit entry %d: %w", e.ID, err)
	}

	return append(append(b, line...), '\n'), nil
}

func (e Entry) marshal(hash string) ([]byte, error) {
	type fields Entry
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // a detail of markup would become six times as long
	err := encoder.Encode(struct {
		fields
		CreatedAt string `json:"createdAt"`
		Hash      string `json:"hash,omitempty"`
	}{fields(e), e.CreatedAt.UTC().Format(timeLayout), hash})
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// Sum returns the hash of the entry if it follows the entry whose hash is previous. It covers all
// fields but Hash. The package comment describes the encoding.
func (e Entry) Sum(previous []byte) []byte {
	texts := [...]string{e.TenantID, e.UserID, e.UserName, e.Category, e.Action, e.TargetType, e.TargetID, e.TargetName, string(e.Status)}
	b := make([]byte, 0, 1024)
	if previous == nil {
		b = append(b, make([]byte, sha256.Size)...)
	}

	b = append(b, previous...)
	b = append(b, "auditlog/1\n"...)
	b = binary.BigEndian.AppendUint64(b, e.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(e.CreatedAt.UnixMicro())) // in two's complement
	for _, s := range texts {
		b = appendText(b, s)
	}

	if e.Detail == nil {
		b = appendText(b, "null")
	} else {
		b = appendText(b, e.Detail)
	}

	b = appendText(b, e.RemoteIP)
	b = appendText(b, e.UserAgent)
	sum := sha256.Sum256(b)
	return sum[:]
}

// Seal completes the entry of a record as the one that follows last in the log of its tenant, for
// implementations of [Store]. CreatedAt becomes now in microseconds, or the time of last if the
// clock went back. The caller holds the lock of the tenant's head and has checked [Record.Err].
func (e *Entry) Seal(last Head, now time.Time) {
	e.ID = last.ID + 1
	e.CreatedAt = now.UTC().Truncate(time.Microsecond)
	if e.CreatedAt.Before(last.CreatedAt) {
		e.CreatedAt = last.CreatedAt.UTC()
	}

	e.Hash = e.Sum(last.Hash)
}

func appendText[T string | json.RawMessage](b []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) // texts are bounded far below 4 GiB
}

// Head identifies the last entry of a log, or the last entry that was pruned: the entry that the
// next one follows. The zero Head is that of a log without entries. Its JSON is
// {"id":"7","hash":"<hex>","at":"<time>"}.
type Head struct {
	ID        uint64
	Hash      []byte // 32 bytes, or nil if ID is 0
	CreatedAt time.Time
}

// Head returns the entry as the head that the next entry follows.
func (e Entry) Head() Head { return Head{ID: e.ID, Hash: e.Hash, CreatedAt: e.CreatedAt} }

type headJSON struct {
	ID   uint64 `json:"id,string"`
	Hash string `json:"hash"`
	At   string `json:"at"`
}

// MarshalJSON implements [json.Marshaler].
func (h Head) MarshalJSON() ([]byte, error) {
	return json.Marshal(headJSON{h.ID, hex.EncodeToString(h.link()), h.CreatedAt.UTC().Format(timeLayout)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Head) UnmarshalJSON(b []byte) error {
	var in headJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("decode head: %w", err)
	}

	hash, err := hex.DecodeString(in.Hash)
	if err != nil {
		return fmt.Errorf("decode head: %w", err)
	}

	at, err := time.Parse(timeLayout, in.At)
	if err != nil {
		return fmt.Errorf("decode head: %w", err)
	}

	*h = Head{ID: in.ID, Hash: hash, CreatedAt: at}
	return nil
}

// link returns the hash that the entry after h is hashed with.
func (h Head) link() []byte {
	if h.Hash == nil {
		return make([]byte, sha256.Size)
	}

	return h.Hash
}

// parseHead parses "<id>:<hash>" with a decimal id and 64 hexadecimal digits. CreatedAt stays zero.
func parseHead(text string) (Head, bool) {
	id, digits, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || !isDigits(id) || len(digits) != hex.EncodedLen(sha256.Size) {
		return Head{}, false
	}

	hash, err := hex.DecodeString(digits)
	return Head{ID: n, Hash: hash}, err == nil
}

// DamagedError reports that the data of a log is inconsistent, because it was lost or changed by
// other means than the store. The store changed nothing. [Verify] reports the extent.
// [Store.Entries] up to a snapshot returns the entries that are left.
type DamagedError struct {
	TenantID string
	ID       uint64 // an entry that is missing, changed or unexpected; 0 if it is unknown
}

func (e *DamagedError) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("the audit log of %q is damaged: verify it", e.TenantID)
	}

	return fmt.Sprintf("the audit log of %q is damaged at entry %d: verify it", e.TenantID, e.ID)
}

// byteOrderMark is what spreadsheets recognize UTF-8 by.
const byteOrderMark = "\uFEFF"

// csvFirst is the header line: the fields of an entry's JSON.
const csvFirst = "id,tenantId,userId,userName,category,action,targetType,targetId,targetName,status,detail,remoteIp,userAgent,createdAt,hash\r\n"

// appendCSV appends a line in the format of RFC 4180.
func (e Entry) appendCSV(b []byte) ([]byte, error) {
	detail := "null"
	if e.Detail != nil {
		detail = string(e.Detail)
	}

	for i, s := range [...]string{
		strconv.FormatUint(e.ID, 10), e.TenantID, e.UserID, e.UserName, e.Category, e.Action, e.TargetType, e.TargetID, e.TargetName,
		string(e.Status), detail, e.RemoteIP, e.UserAgent, e.CreatedAt.UTC().Format(timeLayout), hex.EncodeToString(e.Hash),
	} {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, '"')
		b = append(b, strings.ReplaceAll(harmless(s), `"`, `""`)...)
		b = append(b, '"')
	}

	return append(b, "\r\n"...), nil
}

// formulas are the characters at which spreadsheets recognize a formula, some also in full width,
// and the ' that prevents it.
const formulas = "=+-@\t\r\n＝＋－＠'"

// harmless prevents a spreadsheet from running a text as a formula: anyone who can reach a login
// form can write into an entry. A text that begins with ' also gets one more, so that removing one
// restores every text.
func harmless(s string) string {
	first, n := utf8.DecodeRuneInString(strings.TrimLeft(s, " "))
	if n > 0 && strings.ContainsRune(formulas, first) {
		return "'" + s
	}

	return s
}
