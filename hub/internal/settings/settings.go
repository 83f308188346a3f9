// Package settings has the rules of the hub for settings that the runtime defines: the structs of
// runtime/agent, which forms, rows and configuration files share. A new field of those structs
// needs no code here.
//
// The secrets of a value are its fields of type [agent.Secret], and the texts in its fields of any
// type, such as the further body fields of a provider. Of the address of a provider or an MCP
// server, the values of its query are secrets.
package settings

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/domain"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Masked replaces secrets in responses. In a request, it means the stored value.
const Masked = "***"

// Replace returns a copy of v with each secret replaced by the result of do. Keys are those of
// data.fields, such as headers.X-Token, and each has one secret: a part of several has its position
// and their number, such as query.a[1/2], and a name with a dot or a bracket is quoted.
func Replace[T any](v T, do func(key, secret string) string) T {
	return replace(reflect.ValueOf(&v).Elem(), "", false, do).Interface().(T)
}

// replace returns a copy of v. If any is true, every text is a secret.
func replace(v reflect.Value, key string, any bool, do func(key, secret string) string) reflect.Value {
	fresh := reflect.New(v.Type()).Elem()
	fresh.Set(v)
	switch v.Kind() {
	case reflect.String:
		if any || v.Type() == reflect.TypeFor[agent.Secret]() {
			fresh.SetString(do(key, v.String()))
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case !field.IsExported() || value.IsZero():
			case key == "" && (name == "baseUrl" || name == "url"):
				fresh.FieldByIndex(field.Index).SetString(replaceQuery(value.String(), do))
			default:
				fresh.FieldByIndex(field.Index).Set(replace(value, join(key, name), any, do))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fresh.Set(reflect.New(v.Type().Elem()))
			fresh.Elem().Set(replace(v.Elem(), key, any, do))
		}
	case reflect.Interface:
		if !v.IsNil() {
			fresh.Set(replace(v.Elem(), key, true, do))
		}
	case reflect.Slice:
		if !v.IsNil() {
			fresh.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}

		for i := range v.Len() {
			fresh.Index(i).Set(replace(v.Index(i), position(key, i, v.Len(), any), any, do))
		}
	case reflect.Map:
		if !v.IsNil() {
			fresh.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		}

		chosen := any || v.Type().Elem().Kind() == reflect.Interface // its values have paths too
		for name, value := range v.Seq2() {
			fresh.SetMapIndex(name, replace(value, join(key, quoted(name.String(), chosen)), any, do))
		}
	}

	return fresh
}

// replaceQuery replaces the values of the query of an address, in their escaped form.
func replaceQuery(address string, do func(key, secret string) string) string {
	base, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}

	parts := strings.Split(query, "&")
	count := map[string]int{}
	for _, part := range parts {
		name, _, _ := strings.Cut(part, "=")
		count[name]++
	}

	seen := map[string]int{}
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		key := "query." + quoted(name, true)
		if count[name] > 1 {
			key = position(key, seen[name], count[name], true)
		}

		seen[name]++
		parts[i] = name + "=" + do(key, value)
	}

	return base + "?" + strings.Join(parts, "&")
}

// position returns the key of an element of a list. The number of the elements is part of the key
// of a secret: without one of them, it is not known which of the stored ones are meant.
func position(key string, i, n int, secret bool) string {
	if secret {
		return fmt.Sprintf("%s[%d/%d]", key, i, n)
	}

	return key + "[" + strconv.Itoa(i) + "]"
}

// quoted returns the name of a member that a user chose, quoted if it could be read as a path.
func quoted(name string, chosen bool) string {
	if chosen && strings.ContainsAny(name, `.[]"`) {
		return strconv.Quote(name)
	}

	return name
}

// Origin returns scheme, host and port of an address: what its secrets are bound to. It returns the
// whole address if it has none.
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}

	return domain.Lower(u.Scheme + "://" + u.Host)
}

// RestoreAt is [Restore] for secrets that were stored for an address or command. For another one,
// none is restored.
func RestoreAt[T any](fields api.Fields, v, stored T, same bool) T {
	if same {
		return Restore(fields, v, stored)
	}

	return Replace(v, func(key, secret string) string {
		if secret == Masked {
			fields.Add(key, OtherDestination)
			return ""
		}

		return secret
	})
}

// OtherDestination is the fault of a secret that is stored for another address, or for a command
// with other arguments, another directory or other variables.
const OtherDestination = "is stored for another destination: enter the value again"

func join(key, name string) string {
	if key == "" || name == "" { // an embedded struct has no name
		return key + name
	}

	return key + "." + name
}

// Mask returns a copy of v with Masked in place of each secret.
func Mask[T any](v T) T { return Replace(v, func(string, string) string { return Masked }) }

// Plain returns the values of secrets, such as those of headers, as a request and a response have
// them.
func Plain(secrets map[string]agent.Secret) map[string]string {
	if secrets == nil {
		return nil
	}

	values := make(map[string]string, len(secrets))
	for name, value := range secrets {
		values[name] = string(value)
	}

	return values
}

// Hidden returns values as secrets. It is the reverse of [Plain].
func Hidden(values map[string]string) map[string]agent.Secret {
	if values == nil {
		return nil
	}

	secrets := make(map[string]agent.Secret, len(values))
	for name, value := range values {
		secrets[name] = agent.Secret(value)
	}

	return secrets
}

// Secrets returns the secrets of v by their keys.
func Secrets[T any](v T) map[string]string {
	all := map[string]string{}
	Replace(v, func(key, secret string) string {
		all[key] = secret
		return secret
	})
	return all
}

// Restore returns a copy of v with the stored secret in place of each Masked. It adds a fault for
// one that is not stored.
func Restore[T any](fields api.Fields, v, stored T) T {
	known := Secrets(stored)
	return Replace(v, func(key, secret string) string {
		if secret != Masked {
			return secret
		}

		before, ok := known[key]
		if !ok {
			fields.Add(key, "has no stored value that "+Masked+" could stand for")
		}

		return before
	})
}

// Replaced returns the keys of the secrets of from that have another value in to, sorted.
func Replaced[T any](from, to T) []string {
	after := Secrets(to)
	var keys []string
	for key, before := range Secrets(from) {
		if secret, ok := after[key]; ok && secret != before {
			keys = append(keys, key)
		}
	}

	slices.Sort(keys)
	return keys
}

// AddFaults adds the [agent.Faults] of an error by their keys.
func AddFaults(fields api.Fields, err error) {
	faults, _ := errors.AsType[agent.Faults](err)
	for _, f := range faults {
		fields.Add(f.Key, f.Message)
	}
}

// NotObject returns the error of [agent.DecodeForm] if it is that of the whole body, which is not
// an object, and nil if it has faults of fields.
func NotObject(err error) error {
	faults, ok := errors.AsType[agent.Faults](err)
	if !ok || faults[0].Key != "" {
		return nil
	}

	return errors.New("the body " + faults[0].Message)
}

// Err returns the faults of a form, or nil. decoded is the error of [agent.DecodeForm]: with a
// value of a wrong type, the code is wire.InvalidRequest.
func Err(fields api.Fields, decoded error) error {
	if decoded == nil {
		return fields.Err()
	}

	return &wire.Error{
		Code: wire.InvalidRequest, Message: "The request cannot be parsed: correct these fields.", Data: wire.ErrorData{Fields: fields},
	}
}

// Lines returns the fields of a value for the audit log, sorted, such as "thinking.type: adaptive"
// and, for the elements of a list, "read: /srv". Secrets must be masked before.
func Lines(v any) []string {
	lines := []string{}
	text, err := json.Marshal(v)
	if err != nil {
		return lines
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // as it is written
	var tree any
	if decoder.Decode(&tree) != nil {
		return lines
	}

	var add func(key string, value any)
	add = func(key string, value any) {
		switch value := value.(type) {
		case map[string]any:
			if len(value) == 0 && key != "" {
				lines = append(lines, key+": {}")
			}

			for _, name := range slices.Sorted(maps.Keys(value)) {
				add(join(key, name), value[name])
			}
		case []any:
			if len(value) == 0 {
				lines = append(lines, key+": []")
			}

			for _, element := range value {
				add(key, element)
			}
		default:
			lines = append(lines, fmt.Sprintf("%s: %v", key, value))
		}
	}
	add("", tree)
	return lines
}

// Changed is [auditlog.Diff] for lists that may exceed the size of an audit entry.
func Changed(from, to []string) *auditlog.Change[[]string] {
	change := auditlog.Diff(from, to)
	if change != nil {
		change.From, change.To = Recorded(from), Recorded(to)
	}

	return change
}

// maxRecorded bounds the bytes of a list in an audit entry, encoded as JSON, which needs up to 6
// bytes for a character. An entry has at most eight such lists.
const maxRecorded = 24 << 10

// Recorded returns the first elements of a list, and a summary of those that an audit entry has no
// space for.
func Recorded(list []string) []string {
	size := 0
	for i, element := range list {
		text, _ := json.Marshal(element)
		if size += len(text); size > maxRecorded {
			return append(slices.Clone(list[:i]), fmt.Sprintf("and %d more: %s", len(list)-i, Summary(strings.Join(list[i:], "\n"))))
		}
	}

	return list
}

// Summary identifies a text without its content.
func Summary(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("sha256:%s (%d characters)", hex.EncodeToString(sum[:8]), utf8.RuneCountInString(text))
}
