package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/agentvalue"
)

func (f *serverFile) transport(path string, value any) string {
	switch text := f.string(path, value); text {
	case "streamable-http", "streamableHttp":
		return agentvalue.TransportHTTP
	case agentvalue.TransportStdio, agentvalue.TransportHTTP, agentvalue.TransportSSE:
		return text
	default:
		f.fault(path, "must be stdio, http or sse")
		return agentvalue.TransportStdio
	}
}

func (f *serverFile) milliseconds(path string, value any) string {
	number, _ := value.(json.Number)
	n, err := number.Int64()
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Millisecond) {
		f.fault(path, "must be a number of milliseconds, at most a day")
		return ""
	}

	return (time.Duration(n) * time.Millisecond).String()
}

func (f *serverFile) pairs(path string, value any) map[string]string {
	object, ok := value.(map[string]any)
	if !ok {
		f.fault(path, "must be an object of strings")
	}

	pairs := map[string]string{}
	for name, element := range object {
		at := path + "." + name
		pairs[name] = f.string(at, element)
		if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("=:", c) }) {
			f.fault(at, "the name has a character that is not permitted")
		}

		if strings.HasSuffix(path, ".headers") && strings.ContainsFunc(pairs[name], func(c rune) bool { return c < ' ' && c != '\t' || c > '~' }) {
			f.fault(at, "a header must have printed ASCII characters only")
		}
	}

	return pairs
}

// valueOf returns the value of a variable to which the current server refers.
func (f *serverFile) valueOf(name string) string { return f.referred[name] }

// reference returns a string with references in place of variables that are perhaps secret.
func (f *serverFile) reference(path string, value any) string {
	f.refers = true
	defer func() { f.refers = false }()
	return f.string(path, value)
}

// address returns an address with the values of its variables.
func (f *serverFile) address(path string, value any) string {
	faults := len(f.faults)
	text := f.reference(path, value)
	if wrong := notAddress(text, f.valueOf); wrong != "" {
		f.fault(path, "%s", wrong)
	}

	if len(f.faults) > faults {
		return text
	}

	return f.string(path, value)
}

// found returns the value of a variable of the environment, or a reference to it.
func (f *serverFile) found(name, value string) string {
	if !f.refers || slices.Contains(inherited, name) {
		return value
	}

	f.referred[name] = value
	return agentvalue.Reference(name)
}

// string returns a string with the values of its variables: ${NAME} and ${NAME:-default}, and of VS
// Code ${env:NAME} and ${input:id}.
func (f *serverFile) string(path string, value any) string {
	text, ok := value.(string)
	if !ok {
		f.fault(path, "must be a string")
		return ""
	}

	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String()
		}

		reference, after, closed := strings.Cut(rest, "}")
		if !closed {
			f.fault(path, "${ has no }")
			return out.String()
		}

		out.WriteString(f.variable(path, reference))
		text = after
	}
}

func (f *serverFile) variable(path, reference string) string {
	if id, ok := strings.CutPrefix(reference, "input:"); ok {
		name := strings.ToUpper(strings.ReplaceAll(id, "-", "_"))
		if value := f.getenv(name); value != "" {
			return f.found(name, value)
		}

		if f.inputs[id] == "" {
			f.fault(path, "the input %q has no value: set the environment variable %s", id, name)
		}

		return f.inputs[id]
	}

	name, other, hasDefault := strings.Cut(strings.TrimPrefix(reference, "env:"), ":-")
	isName := name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
	switch value := f.getenv(name); {
	case strings.Contains(other, "${"):
		f.fault(path, "the default of ${%s} must not contain a variable", name)
	case !isName || name == "workspaceFolder" || name == "userHome" || name == "pathSeparator":
		f.fault(path, "${%s} has no value in a hub: write the value", reference)
	case value != "":
		return f.found(name, value)
	case !hasDefault:
		f.fault(path, "the environment variable %s is not set: set it, or write ${%s:-default}", name, name)
	}

	return other
}
