package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// decoder decodes nodes into the types of this package by their JSON names. It continues after a
// fault. It records the place of each key for faults that are found later.
type decoder struct {
	form   bool // decode the body of a request, see [DecodeForm]
	lookup func(string) (string, bool)
	// In an MCP server, variables can have defaults, and texts that are not secret have variables if
	// expands is set. A key cannot have a default, which would be one.
	inServer, expands bool

	faults Faults
	places map[string]place
	faulty map[string]bool // keys with a fault
	above  map[string]bool // keys with a faulty key below them
}

// packagePath is the path of this package.
var packagePath = reflect.TypeFor[File]().PkgPath()

func newDecoder(lookup func(string) (string, bool)) *decoder {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}

	return &decoder{
		lookup: lookup,
		places: map[string]place{"": {1, 1}},
		faulty: map[string]bool{},
		above:  map[string]bool{},
	}
}

// has reports whether the file contains the key.
func (d *decoder) has(key string) bool { _, ok := d.places[key]; return ok }

// place returns the place of a key. A key that the file does not contain has the place of its
// parent.
func (d *decoder) place(key string) place {
	for {
		if at, ok := d.places[key]; ok {
			return at
		}

		key = parent(key)
	}
}

// reported reports whether the key, a parent or a child has a fault. A further fault of the key
// would be a consequence of it.
func (d *decoder) reported(key string) bool {
	if d.above[key] {
		return true
	}

	for ; key != ""; key = parent(key) {
		if d.faulty[key] {
			return true
		}
	}

	return d.faulty[""]
}

func (d *decoder) fault(key, format string, args ...any) {
	if d.form && len(d.faults) >= maxFaults {
		return
	}

	d.report(d.place(key), key, format, args...)
	d.mark(key)
}

func (d *decoder) report(at place, key, format string, args ...any) {
	d.faults = append(d.faults, Fault{Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) mark(key string) {
	for d.faulty[key] = true; key != ""; {
		key = parent(key)
		d.above[key] = true
	}
}

func (d *decoder) decode(n *yaml.Node, into *File) {
	d.value(n, reflect.ValueOf(into).Elem(), "")
}

func (d *decoder) value(n *yaml.Node, v reflect.Value, key string) {
	if to, ok := v.Addr().Interface().(*json.RawMessage); ok {
		d.schema(n, to, key)
		return
	}

	if d.form && kindOf(n) == kindNull && v.Kind() != reflect.Interface {
		if to, ok := v.Addr().Interface().(json.Unmarshaler); ok && v.Type().PkgPath() != packagePath {
			_ = to.UnmarshalJSON([]byte("null")) // by convention without an error
		}

		return
	}

	switch to := v.Addr().Interface().(type) {
	case *Secret:
		d.secret(n, to, key)
		return
	case *[]Secret:
		if kindOf(n) != kindList {
			var s Secret
			d.secret(n, &s, key)
			*to = splitKeys(string(s))
			return
		}
	case *time.Duration:
		d.duration(n, to, key)
		return
	case json.Unmarshaler: // of this package, only for durations, which are decoded above
		if v.Type().PkgPath() == packagePath {
			break
		}

		text, err := json.Marshal(plain(n))
		if err == nil {
			err = to.UnmarshalJSON(text)
		}

		if wrong, ok := errors.AsType[*jsonlimit.Error](err); ok {
			d.fault(within(key, wrong.Field), "%s", wrong.Message)
		} else if err != nil {
			d.fault(key, "%s", err)
		}

		return
	}

	switch v.Kind() {
	case reflect.String:
		if d.want(n, key, kindText) {
			v.SetString(d.text(n.Value, key))
		}
	case reflect.Int, reflect.Int64:
		if kindOf(n) == kindNumber || kindOf(n) == kindInteger && n.Decode(v.Addr().Interface()) != nil {
			d.fault(key, "must be a whole number of at most %d", int64(math.MaxInt64))
		} else {
			d.want(n, key, kindInteger)
		}
	case reflect.Float64:
		if kindOf(n) == kindInteger || d.want(n, key, kindNumber) {
			number, _ := numberOf(n) // which kindOf has decoded
			v.SetFloat(number)
		}
	case reflect.Bool:
		if d.want(n, key, kindBoolean) {
			v.SetBool(plain(n).(bool))
		}
	case reflect.Interface:
		if value := plain(n); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), key)
	case reflect.Slice:
		d.list(n, v, key)
	case reflect.Map:
		d.mapping(n, v, key)
	case reflect.Struct:
		d.fields(n, v, key)
	default:
		panic("agent: cannot decode " + v.Type().String()) // a field of a new type
	}
}

var wanted = map[valueType]string{
	kindText: "a string", kindInteger: "a whole number", kindNumber: "a number", kindList: "a list", kindMapping: "a map",
	kindBoolean: "true or false",
}

// within returns the key of a field of the value at a key, which may be an element.
func within(key, field string) string {
	if field == "" || key == "" || field[0] == '[' {
		return key + field
	}

	return key + "." + field
}

func (d *decoder) want(n *yaml.Node, key string, k valueType) bool {
	if kindOf(n) == k {
		return true
	}

	hint := ""
	if kindOf(n) == kindNull {
		hint = "; omit the key if it is not needed"
	}

	d.fault(key, "must be %s, not %s%s", wanted[k], nameOf(n), hint)
	return false
}

func (d *decoder) secret(n *yaml.Node, to *Secret, key string) {
	if !d.want(n, key, kindText) {
		return
	}

	if d.form {
		*to = Secret(n.Value)
		return
	}

	value, err := expand(n.Value, d.inServer, d.lookup)
	if err != nil {
		d.fault(key, "%s", err)
		return
	}

	*to = Secret(value)
}

// text returns a text with the values of its variables, if it is that of an MCP server.
func (d *decoder) text(text, key string) string {
	if !d.inServer || !d.expands {
		return text
	}

	value, err := expand(text, true, func(name string) (string, bool) {
		if own, ok := strings.CutPrefix(name, agentvalue.OwnVariable); ok {
			return agentvalue.Reference(own), true // for the start of the server
		}

		return d.lookup(name)
	})
	if err != nil {
		d.fault(key, "%s", err)
	}

	return value
}

func (d *decoder) duration(n *yaml.Node, to *time.Duration, key string) {
	v, err := time.ParseDuration(n.Value)
	if kindOf(n) != kindText || err != nil {
		d.fault(key, `must be a duration such as "90s" or "30m"`)
		return
	}

	*to = v
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, key string) {
	if !d.want(n, key, kindList) {
		return
	}

	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		k := element(key, i)
		if !d.form {
			d.places[k] = placeOf(item)
		}

		d.value(item, v.Index(i), k)
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, key string) {
	if !d.want(n, key, kindMapping) {
		return
	}

	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range d.unique(n, key) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, elem, child(key, e.key))
		v.SetMapIndex(reflect.ValueOf(e.key), elem)
	}
}

func (d *decoder) fields(n *yaml.Node, v reflect.Value, key string) {
	if !d.want(n, key, kindMapping) {
		return
	}

	names := map[string][]int{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if before, hidden := names[name]; name != "" && (!hidden || len(f.Index) < len(before)) {
			names[name] = f.Index
		}
	}

	server, isServer := v.Addr().Interface().(*MCPServer)
	isServer = isServer && !d.form
	if isServer {
		renameType(n)
		d.inServer = true
		defer func() { d.inServer = false }()
	}

	for _, e := range d.unique(n, key) {
		k := child(key, e.key)
		if i, ok := names[e.key]; ok {
			d.value(e.value, v.FieldByIndex(i), k)
			continue
		}

		if d.form {
			continue
		}

		hint := ""
		if near := nearest(e.key, names); near != "" {
			hint = "; did you mean " + near + "?"
			if !d.has(child(key, near)) {
				d.mark(child(key, near)) // do not report that it is missing
			}
		}

		d.fault(k, "unknown key%s", hint)
	}

	if isServer && !d.has(child(key, "transport")) {
		server.inferTransport()
	}
}

// renameType renames the key type of an MCP server, which other programs have, to transport.
func renameType(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "type" {
			n.Content[i].Value = "transport"
		}
	}
}

// inferTransport sets the transport of a server that has only a command or a URL.
func (s *MCPServer) inferTransport() {
	switch {
	case s.Command != "" && s.URL == "":
		s.Transport = agentvalue.TransportStdio
	case s.URL != "" && s.Command == "":
		s.Transport = agentvalue.TransportHTTP
	}
}

// member is a key of a map with its value.
type member struct {
	key   string
	value *yaml.Node
}

// unique records the places of the keys, unless they are those of a form. It reports and removes
// repeated keys.
func (d *decoder) unique(n *yaml.Node, key string) []member {
	places := d.places
	if d.form {
		places = map[string]place{}
	}

	entries := make([]member, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := member{key: n.Content[i].Value, value: n.Content[i+1]}
		if d.form && len(e.key) > maxKey {
			d.fault(key, "must not have a key of more than %d bytes", maxKey)
			continue
		}

		k, at := child(key, e.key), placeOf(n.Content[i])
		switch before, repeated := places[k]; {
		case repeated && d.form:
			d.fault(k, "must not occur twice")
			continue
		case repeated:
			d.report(at, k, "is repeated, first on line %d", before.line)
			continue
		}

		places[k] = at
		entries = append(entries, e)
	}

	return entries
}
