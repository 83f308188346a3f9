package auditlog_test

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func TestDefineNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.b", "user.update_role", "agent.create_tool", "x1.y2", "a_.b_", strings.Repeat("a", 32) + "." + strings.Repeat("b", 31)} {
		require.Equal(t, name, auditlog.Define[auditlog.None](name).Name())
	}
	for _, name := range []string{
		"", ".", "user", "user.", ".create", "user.create.x", "User.create", "user.Create", "1user.create", "_user.create", "user.1", "user._x",
		"user create", "user. create", "user.create\n", "用户.create", "user-x.create", "user%.create", strings.Repeat("a", 32) + "." + strings.Repeat("b", 32),
	} {
		require.Panics(t, func() { auditlog.Define[auditlog.None](name) }, "%q", name)
	}
}

type (
	role  string
	inner struct {
		Deep []*[2]inmost `json:"deep"`
	}
	inmost struct {
		Role role `json:"role"`
	}
	tree   struct{ Children []tree }
	ring   struct{ Next *ring }
	ping   struct{ Pong []pong }
	pong   struct{ Ping *ping }
	secret struct{ Name, _ string }
	left   struct {
		Out string `json:"-"`
	}
	number struct {
		N int `json:"n,string"`
	}
	Embedded  struct{ X int }
	textual   int
	outspoken struct{ X any }
)

func (textual) MarshalText() ([]byte, error) { return nil, nil }

func (*outspoken) MarshalJSON() ([]byte, error) { return nil, nil }

// What was declared with one detail must not be turned into an action with another.
func TestActionsDoNotConvert(t *testing.T) {
	t.Parallel()
	require.False(t, reflect.TypeFor[auditlog.Action[Embedded]]().ConvertibleTo(reflect.TypeFor[auditlog.Action[inmost]]()))
}

func defines[D any](name string, panics bool) (string, bool, func()) {
	return name, panics, func() { auditlog.Define[D]("user.test") }
}

func TestDefineDetails(t *testing.T) {
	t.Parallel()
	row := func(name string, panics bool, define func()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !panics {
				require.NotPanics(t, define)
				return
			}
			defer func() { require.Contains(t, recover(), "auditlog: define action user.test: detail ") }()
			define()
		})
	}
	const open, closed = true, false
	row(defines[auditlog.None]("none", closed))
	row(defines[struct{}]("an empty struct", closed))
	row(defines[auditlog.Change[string]]("a change", closed))
	row(defines[struct{ A *auditlog.Change[[]string] }]("an optional change of a list", closed))
	row(defines[inner]("structs within structs", closed))
	row(defines[struct{ T time.Time }]("a time", closed))
	row(defines[struct{ T *time.Time }]("an optional time", closed))
	row(defines[struct{ Embedded }]("an embedded struct", closed))
	row(defines[struct{ inmost }]("an embedded struct of a small name", closed))
	row(defines[struct {
		A, B inmost
	}]("one type twice", closed))
	row(defines[struct {
		A bool
		B int8
		C uint64
		D float32
		E [3]string
	}]("plain types", closed))

	row(defines[string]("a string", open))
	row(defines[[]inmost]("a slice", open))
	row(defines[*inmost]("a pointer", open))
	row(defines[map[string]string]("a map", open))
	row(defines[any]("an interface", open))
	row(defines[time.Time]("a time alone", open))
	row(defines[json.RawMessage]("raw JSON", open))
	row(defines[struct{ A map[string]string }]("a map in a field", open))
	row(defines[struct{ A any }]("an interface in a field", open))
	row(defines[struct{ A []error }]("interfaces in a slice", open))
	row(defines[struct{ A json.RawMessage }]("raw JSON in a field", open))
	row(defines[struct{ A *json.RawMessage }]("raw JSON behind a pointer", open))
	row(defines[struct{ A json.Number }]("a json.Number holds numbers alone, and is a string", closed))
	row(defines[struct{ A []byte }]("bytes", open))
	row(defines[struct{ A [32]byte }]("an array of bytes", open))
	row(defines[struct{ A func() }]("a function", open))
	row(defines[struct{ A chan int }]("a channel", open))
	row(defines[struct{ A complex128 }]("a complex number", open))
	row(defines[struct{ A uintptr }]("an address", open))
	row(defines[struct{ A netip.Addr }]("a type that writes text", open))
	row(defines[struct{ A big.Int }]("a type whose pointer writes JSON", open))
	row(defines[struct{ A textual }]("a number that writes text", open))
	row(defines[outspoken]("a detail that writes itself", open))
	row(defines[struct{ *Embedded }]("an embedded pointer", open))
	row(defines[tree]("a tree", open))
	row(defines[ring]("a ring", open))
	row(defines[ping]("a ring of two", open))
	row(defines[auditlog.Change[tree]]("a change of a tree", open))
	row(defines[auditlog.Change[any]]("a change of anything", open))
	row(defines[secret]("a field that is not recorded", open))
	row(defines[left]("a field that is left out", open))
	row(defines[number]("a number as a string", open))
	row(defines[struct{ A []map[int]int }]("a map in a slice", open))
}
