package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// serverFile is a file with the MCP servers of another program: .mcp.json and
// claude_desktop_config.json have mcpServers, mcp.json of VS Code has servers and inputs.
type serverFile struct {
	name   string
	text   []byte
	getenv func(string) string
	lines  map[string]int    // by the path of a member
	inputs map[string]string // the default values of inputs by id
	faults []lineFault

	// refers is set while the text of a command line or an address is read, whose variables become
	// references. referred has the values of those of the current server.
	refers   bool
	referred map[string]string
}

// lineFault is a fault of a line of a file.
type lineFault struct {
	line int
	text string
}

// parseServers returns the servers of a file, sorted by name, with the values of variables. The
// error has all faults with their lines.
func parseServers(name string, text []byte, getenv func(string) string) ([]wire.MCPRequest, error) {
	f := &serverFile{name: name, text: plainJSON(text), getenv: getenv, lines: map[string]int{}, inputs: map[string]string{}}
	root, err := f.read()
	if err != nil {
		return nil, err
	}

	list, _ := root["inputs"].([]any)
	for _, element := range list {
		input, _ := element.(map[string]any)
		id, _ := input["id"].(string)
		if value, ok := input["default"].(string); ok {
			f.inputs[id] = value
		}
	}

	servers := []wire.MCPRequest{}
	for _, key := range []string{"mcpServers", "servers"} {
		value, ok := root[key]
		entries, isObject := value.(map[string]any)
		if ok && !isObject {
			f.fault(key, "must be an object with a member for each server")
		}

		for _, server := range slices.Sorted(maps.Keys(entries)) {
			servers = append(servers, f.server(key+"."+server, server, entries[server]))
		}
	}

	if root["mcpServers"] == nil && root["servers"] == nil {
		f.fault("", "the file has neither mcpServers nor servers")
	}

	slices.SortStableFunc(f.faults, func(a, b lineFault) int { return a.line - b.line })
	var faults []error
	for _, fault := range f.faults {
		faults = append(faults, fmt.Errorf("%s:%d: %s", f.name, fault.line, fault.text))
	}

	return servers, errors.Join(faults...)
}

func (f *serverFile) fault(path, format string, args ...any) {
	line := f.lines[path]
	for parent := path; line == 0 && parent != ""; line = f.lines[parent] {
		parent = parent[:max(strings.LastIndexByte(parent, '.'), 0)]
	}

	about := ""
	if path != "" {
		about = path + ": "
	}

	f.faults = append(f.faults, lineFault{max(line, 1), about + fmt.Sprintf(format, args...)})
}

// read returns the object of the file, and records the lines of its members.
func (f *serverFile) read() (map[string]any, error) {
	if err := json.Unmarshal(f.text, new(json.RawMessage)); err != nil {
		offset := len(f.text)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = int(syntax.Offset)
		}

		return nil, fmt.Errorf("%s:%d: %w", f.name, f.lineOf(offset), err)
	}

	decoder := json.NewDecoder(bytes.NewReader(f.text))
	decoder.UseNumber()
	value, err := f.value(decoder, "")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.name, err)
	}

	root, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s:1: the file is not an object", f.name)
	}

	return root, nil
}

func (f *serverFile) lineOf(offset int) int {
	return 1 + bytes.Count(f.text[:min(offset, len(f.text))], []byte("\n"))
}

// value returns the next value. The text is valid JSON.
func (f *serverFile) value(decoder *json.Decoder, path string) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}

	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for decoder.More() {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}

			name := fmt.Sprint(key)
			at := strings.TrimPrefix(path+"."+name, ".")
			if _, repeated := object[name]; repeated {
				f.fault(at, "is repeated on line %d", f.lineOf(int(decoder.InputOffset())))
			} else {
				f.lines[at] = f.lineOf(int(decoder.InputOffset()))
			}

			object[name], err = f.value(decoder, at)
			if err != nil {
				return nil, err
			}
		}

		_, err = decoder.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			at := fmt.Sprintf("%s.%d", path, len(list))
			element, err := f.value(decoder, at)
			if err != nil {
				return nil, err
			}

			f.lines[at] = f.lineOf(int(decoder.InputOffset()))
			list = append(list, element)
		}

		_, err = decoder.Token()
		return list, err
	}

	return token, nil
}

// ignored are members that do not change how a server runs.
var ignored = []string{"gallery", "version", "dev"}

// advice is what to do about members that the hub does not have.
var advice = map[string]string{
	"envFile":       "write its variables into env",
	"headersHelper": "write the headers into headers",
	"oauth":         "set the client with agenthost mcps apply; the hub has client credentials only",
	"alwaysAllow":   "write the tools into allowedTools of the agent, as mcp__SERVER__TOOL",
	"autoApprove":   "write the tools into allowedTools of the agent, as mcp__SERVER__TOOL",
}

// server returns the request for a server.
func (f *serverFile) server(path, name string, value any) wire.MCPRequest {
	req := wire.MCPRequest{Name: name}
	entry, ok := value.(map[string]any)
	if !ok {
		f.fault(path, "must be an object")
		return req
	}

	f.referred = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		at := path + "." + key
		switch v := entry[key]; key {
		case "type", "transport":
			req.Transport = f.transport(at, v)
		case "command":
			req.Command = f.reference(at, v)
		case "args":
			list, isList := v.([]any)
			if !isList {
				f.fault(at, "must be a list of strings")
			}

			for i, element := range list {
				req.Args = append(req.Args, f.reference(fmt.Sprintf("%s.%d", at, i), element))
			}
		case "env":
			req.Env = f.pairs(at, v)
		case "headers":
			req.Headers = f.pairs(at, v)
		case "url":
			req.URL = f.address(at, v)
		case "cwd":
			req.CWD = f.reference(at, v)
		case "description":
			req.Description = f.string(at, v)
		case "timeout":
			req.Timeout = f.milliseconds(at, v)
		case "disabled":
			disabled, isBool := v.(bool)
			if !isBool {
				f.fault(at, "must be true or false")
			}

			enabled := !disabled
			req.Enabled = &enabled
		default:
			if !slices.Contains(ignored, key) {
				remedy := "remove it"
				if text := advice[key]; text != "" {
					remedy = text
				}

				f.fault(at, "the hub does not have this setting: %s", remedy)
			}
		}
	}

	if wrong := addReferences(&req, nil, f.valueOf, f.valueOf); wrong != "" {
		f.fault(path, "%s", wrong)
	}

	if req.Transport == "" && req.URL != "" {
		req.Transport = agentvalue.TransportHTTP
	} else if req.Transport == "" {
		req.Transport = agentvalue.TransportStdio
	}

	f.check(path, req)
	return req
}

// check judges a server by the rules of the runtime, which the hub has too.
func (f *serverFile) check(path string, req wire.MCPRequest) {
	server := agent.MCPServer{Transport: req.Transport, Command: req.Command, Args: req.Args, CWD: req.CWD, URL: req.URL}
	server.Env, server.Headers = secrets(req.Env), secrets(req.Headers)
	probe := agent.Agent{
		ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}, MCPServers: map[string]agent.MCPServer{req.Name: server},
	}
	faults, _ := errors.AsType[agent.Faults](probe.Validate())
	unusable, _ := errors.AsType[agent.Faults](probe.Check())
	for _, fault := range slices.Concat(faults, unusable) {
		field := strings.TrimPrefix(fault.Key, "mcpServers."+req.Name)
		field = strings.TrimPrefix(field, fmt.Sprintf("mcpServers[%q]", req.Name)) // of a name with other characters
		field = strings.TrimPrefix(field, ".")
		at := strings.TrimSuffix(path+"."+field, ".")
		if field == "transport" {
			at = path + ".type"
		}

		isKnown := func(former lineFault) bool { return strings.HasPrefix(former.text, at+": ") }
		if !slices.ContainsFunc(f.faults, isKnown) { // a value of another type is absent here
			f.fault(at, "%s", fault.Message)
		}
	}

	if strings.ContainsFunc(req.Command+req.URL+req.CWD, unicode.IsControl) {
		f.fault(path, "command, url and cwd must have no control characters")
	}

	command := agentvalue.Resolve(req.Command, req.Env)
	isRelative := strings.ContainsAny(command, `/\`) && !strings.HasPrefix(command, "/")
	if isRelative && req.CWD == "" {
		f.fault(path+".command", "is relative, and the server starts in an empty directory: write an absolute path, or set cwd")
	}

	if u, err := url.Parse(req.URL); req.URL != "" && (err != nil || u.User != nil) {
		f.fault(path+".url", "must be an address without a user and a password: write them into headers")
	}
}

func secrets(values map[string]string) map[string]agent.Secret {
	out := map[string]agent.Secret{}
	for name, value := range values {
		out[name] = agent.Secret(value)
	}

	return out
}
