package agent

import (
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/internal/permission"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/internal/toolschema"
)

var (
	permissionModes = []string{"default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"}
	settingSources  = []string{"user", "project", "local"}
	transports      = []string{agentvalue.TransportStdio, agentvalue.TransportSSE, agentvalue.TransportHTTP}

	agentID = pattern.Compile(`^[a-z0-9](-?[a-z0-9])*$`)
	// A server's name is part of tool names, mcp__<server>__<tool>. Models accept only these
	// characters, and a second _ would be ambiguous.
	serverName = pattern.Compile(`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`)
	// A comma separates keys in the environment, and other characters are invalid in a header.
	apiKey = pattern.Compile(`^[!-+\--~]+$`)
	// It is an element of a path.
	archiveName = pattern.Compile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	fileHash    = pattern.Compile(`^sha256:[0-9a-f]{64}$`)
)

// Validate returns the faults that prevent a program from starting, as [Faults] without lines.
// Parse includes it. A File built in Go needs it.
func (f *File) Validate() error { return f.faults(absent).err() }

// Validate is [File.Validate] for one agent, with keys relative to it.
func (a *Agent) Validate() error {
	r := rules{has: absent}
	r.agent(a, "")
	return r.faults.err()
}

func (f *File) faults(has func(key string) bool) Faults {
	r := rules{has: has}
	r.file(f)
	return r.faults
}

func (r *rules) file(f *File) {
	if r.has("auth") && !r.has("auth.apiKey") {
		r.faults.add("auth.apiKey", "is missing")
	}

	if f.Auth.APIKeys != nil && len(f.Auth.APIKeys) == 0 {
		r.faults.add("auth.apiKey", "must not be empty; omit auth to accept every caller")
	}

	for i, k := range f.Auth.APIKeys {
		switch {
		case k == "":
			r.faults.add(element("auth.apiKey", i), "must not be empty")
		case !apiKey().MatchString(string(k)):
			r.faults.add(element("auth.apiKey", i), "must be visible ASCII characters without commas")
		}
	}

	r.limits(f.Limits, "limits")
	r.sandboxLimits(f.Sandbox.Limits)
	if f.Agents == nil {
		r.faults.add("agents", "is missing")
	}

	first := make(map[string]int, len(f.Agents))
	for i := range f.Agents {
		key := element("agents", i)
		r.agent(&f.Agents[i], key)
		id := f.Agents[i].ID
		if before, ok := first[id]; ok && id != "" {
			r.faults.add(child(key, "id"), "%q is already the id of %s", id, element("agents", before))
			continue
		}

		first[id] = i
	}
}

func (r *rules) limits(l Limits, key string) {
	r.positive(child(key, "maxConcurrentRuns"), int64(l.MaxConcurrentRuns))
	r.positive(child(key, "maxMessageBytes"), l.MaxMessageBytes)
	r.positive(child(key, "maxUploadBytes"), l.MaxUploadBytes)
	r.positive(child(key, "maxMemoryBytes"), l.MaxMemoryBytes)
	r.positive(child(key, "sessionTTL"), int64(l.SessionTTL))
	r.positive(child(key, "runTimeout"), int64(l.RunTimeout))
	r.positive(child(key, "llmIdleTimeout"), int64(l.LLMIdleTimeout))
	r.positive(child(key, "toolTimeout"), int64(l.ToolTimeout))
	r.positive(child(key, "maxToolOutputBytes"), int64(l.MaxToolOutputBytes))
	r.positive(child(key, "mcpConnectTimeout"), int64(l.MCPConnectTimeout))
	r.positive(child(key, "mcpStartTimeout"), int64(l.MCPStartTimeout))
	r.positive(child(key, "maxResponseBytes"), int64(l.MaxResponseBytes))
	if l.MaxResponseBytes > 64<<20 { // what an adapter accepts
		r.faults.add(child(key, "maxResponseBytes"), "must be at most 67108864")
	}
}

func (r *rules) agent(a *Agent, key string) {
	at := func(name string) string { return child(key, name) }
	if r.required(at("id"), a.ID) && (len(a.ID) > 63 || !agentID().MatchString(a.ID)) {
		r.faults.add(at("id"), "%q must consist of lower-case letters and digits with single hyphens between them, at most 63 characters", a.ID)
	}

	r.required(at("model"), a.Model)
	r.provider(a.Provider, at("provider"))
	r.positive(at("maxOutputTokens"), int64(a.MaxOutputTokens))
	r.positive(at("contextWindow"), int64(a.ContextWindow))
	if t := a.Temperature; t != nil && (math.IsNaN(*t) || *t < 0 || *t > 2) {
		r.faults.add(at("temperature"), "must be from 0 to 2")
	}

	r.thinking(a.Thinking, at("thinking"))
	if a.SystemPrompt != "" && a.SystemPromptFile != "" {
		r.faults.add(at("systemPromptFile"), "cannot be combined with systemPrompt")
	}

	r.positive(at("maxTurns"), int64(a.MaxTurns))
	if a.PermissionMode != "" || r.has(at("permissionMode")) {
		r.oneOf(at("permissionMode"), a.PermissionMode, permissionModes)
	}

	for i, s := range a.SettingSources {
		r.oneOf(element(at("settingSources"), i), s, settingSources)
	}

	for _, name := range slices.Sorted(maps.Keys(a.MCPServers)) {
		r.server(a.MCPServers[name], name, child(at("mcpServers"), name))
	}

	for _, name := range slices.Sorted(maps.Keys(a.Subagents)) {
		r.subagent(a.Subagents[name], name, child(at("subagents"), name))
	}

	for i, t := range a.CustomTools {
		r.customTool(t, element(at("customTools"), i))
	}

	for i, s := range a.SkillArchives {
		r.skillArchive(s, element(at("skillArchives"), i))
	}

	r.sandbox(a.Sandbox, at("sandbox"))
	r.commandEnv(a.CommandEnv, at("commandEnv"))
	r.limits(Limits{}.Of(a.Limits), at("limits"))
}

func (r *rules) commandEnv(env map[string]Secret, key string) {
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		bytes += len(name) + len(env[name])
		if !variableName().MatchString(name) {
			r.faults.add(child(key, name), "must have a name of letters, digits and underscores")
		}

		if strings.ContainsRune(string(env[name]), 0) {
			r.faults.add(child(key, name), "must not contain a null byte")
		}
	}

	if bytes > maxCommandEnv || len(env) > maxSandboxEntries {
		r.faults.add(key, "must have at most %d variables and %d bytes", maxSandboxEntries, maxCommandEnv)
	}
}

const maxCommandEnv = 64 << 10 // bytes of names and values

var variableName = pattern.Compile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func (r *rules) thinking(t Thinking, key string) {
	budget, effort, kind := child(key, "budgetTokens"), child(key, "effort"), child(key, "type")
	r.positive(budget, int64(t.BudgetTokens))
	if t.Type == "" {
		if r.has(key) && !r.has(budget) && t.BudgetTokens == 0 {
			r.faults.add(budget, "is missing; a model that chooses the amount itself needs type: adaptive")
		}

		if t.Effort != "" {
			r.faults.add(effort, "requires type: adaptive")
		}

		return
	}

	if !r.oneOf(kind, t.Type, []string{agentvalue.ThinkingAdaptive}) {
		return
	}

	if t.BudgetTokens != 0 {
		r.faults.add(budget, "has no effect with type: adaptive")
	}

	if len(t.Effort) > maxEffort {
		r.faults.add(effort, "must have at most %d bytes", maxEffort)
	}
}

// maxEffort bounds the effort of thinking, whose values are those of the provider, in bytes.
const maxEffort = 64

func (r *rules) provider(p Provider, key string) {
	if reflect.ValueOf(p).IsZero() && !r.has(key) {
		r.faults.add(key, "is missing")
		return
	}

	r.required(child(key, "protocol"), p.Protocol)
	r.notEmpty(child(key, "baseUrl"), string(p.BaseURL))
	r.notEmpty(child(key, "apiKey"), string(p.APIKey))
	if p.APIKeyHeader != "" && (p.AuthStyle == agentvalue.AuthBearer || p.AuthStyle == agentvalue.AuthNone) {
		r.faults.add(child(key, "apiKeyHeader"), "has no effect with authStyle: %s", p.AuthStyle)
	}

	r.notEmpty(child(key, "apiKeyHeader"), p.APIKeyHeader)
	if p.StreamUsage != nil && p.Protocol == ProtocolAnthropic {
		r.faults.add(child(key, "streamUsage"), "has no effect with protocol: %s", p.Protocol)
	}
}

func (r *rules) server(s MCPServer, name, key string) {
	if !serverName().MatchString(name) {
		r.faults.add(key, "a name must consist of letters, digits, hyphens and single underscores between them")
	}

	if !r.required(child(key, "transport"), s.Transport) || !r.oneOf(child(key, "transport"), s.Transport, transports) {
		return
	}

	r.positive(child(key, "timeout"), int64(s.Timeout))
	if oauth := child(key, "oauth"); s.OAuth != (OAuth{}) || r.has(oauth) {
		r.required(child(oauth, "clientId"), s.OAuth.ClientID)
		r.required(child(oauth, "clientSecret"), string(s.OAuth.ClientSecret))
		if u, err := url.Parse(s.OAuth.Issuer); s.OAuth.Issuer != "" && (err != nil || !isHTTP(u)) {
			r.faults.add(child(oauth, "issuer"), "must be an http or https address")
		}

		r.notEmpty(child(oauth, "scope"), s.OAuth.Scope)
		r.notEmpty(child(oauth, "audience"), s.OAuth.Audience)
	}

	foreign := func(name string, present bool) {
		if present {
			r.faults.add(child(key, name), "has no effect with transport %s", s.Transport)
		}
	}
	foreign("oauth", s.Transport != agentvalue.TransportHTTP && s.OAuth != (OAuth{}))
	if s.Transport == agentvalue.TransportStdio {
		r.required(child(key, "command"), s.Command)
		foreign("url", s.URL != "")
		foreign("headers", len(s.Headers) > 0)
		if s.Sandbox.Mode != "" {
			r.faults.add(child(child(key, "sandbox"), "mode"), "is that of the agent, and cannot be set for a server")
		}

		r.sandbox(s.Sandbox, child(key, "sandbox"))
		return
	}

	r.required(child(key, "url"), s.URL)
	foreign("command", s.Command != "")
	foreign("args", len(s.Args) > 0)
	foreign("env", len(s.Env) > 0)
	foreign("cwd", s.CWD != "")
	foreign("sandbox", !reflect.ValueOf(s.Sandbox).IsZero())
}

func (r *rules) subagent(s Subagent, name, key string) {
	if name == "" {
		r.faults.add(key, "a name must not be empty")
	}

	r.required(child(key, "description"), s.Description)
	r.required(child(key, "prompt"), s.Prompt)
	r.positive(child(key, "maxTurns"), int64(s.MaxTurns))
}

func (r *rules) customTool(t CustomTool, key string) {
	switch {
	case t.URL == "" && t.Path == "":
		r.faults.add(key, "requires url or path")
	case t.URL != "" && t.Path != "":
		r.faults.add(child(key, "path"), "cannot be combined with url")
	case t.URL != "":
		r.required(child(key, "name"), t.Name)
		r.required(child(key, "hash"), t.Hash)
	}
}

func (r *rules) skillArchive(s SkillArchive, key string) {
	if r.required(child(key, "name"), s.Name) && !archiveName().MatchString(s.Name) {
		r.faults.add(child(key, "name"), "%q must consist of at most 100 letters, digits, dots, hyphens and underscores, and begin with a letter or digit", s.Name)
	}

	r.required(child(key, "url"), s.URL)
	if r.required(child(key, "hash"), s.Hash) && !fileHash().MatchString(s.Hash) {
		r.faults.add(child(key, "hash"), "must be sha256: and 64 hex digits in lower case")
	}
}

var (
	protocols  = []string{ProtocolAnthropic, ProtocolOpenAI, ProtocolDemo}
	authStyles = []string{agentvalue.AuthAPIKey, agentvalue.AuthBearer, agentvalue.AuthNone}
)

// Check reports, as [Faults] with keys relative to the agent, why a valid agent is unavailable: it
// has an unknown protocol or authentication style, a malformed address, hash or rule of a list of
// tools, an output schema that cannot be used, an MCP server whose address has a user or a
// password, or refers to an MCP server that it does not define. Other agents are not affected.
// Check examines only the definition. The runtime checks whether files, keys and tools exist.
func (a *Agent) Check() error {
	var faults Faults
	if p := a.Provider.Protocol; !slices.Contains(protocols, p) {
		faults.add("provider.protocol", "%s", unknownValue(p, protocols))
	}

	if s := a.Provider.AuthStyle; s != "" && !slices.Contains(authStyles, s) {
		faults.add("provider.authStyle", "%s", unknownValue(s, authStyles))
	}

	if b := string(a.Provider.BaseURL); b != "" {
		if u, err := url.Parse(b); err != nil || !isHTTP(u) {
			faults.add("provider.baseUrl", "must be an http or https address")
		}
	}

	for _, name := range slices.Sorted(maps.Keys(a.MCPServers)) {
		address := a.MCPServers[name].URL
		if u, err := url.Parse(address); address != "" && (err != nil || !isHTTP(u) || u.User != nil) {
			faults.add(child(child("mcpServers", name), "url"), "must be an http or https address without a user and a password: send them in headers")
		}
	}

	rules := func(key string, list []string) {
		for i, text := range list {
			if err := permission.CheckRule(text); err != nil {
				faults.add(element(key, i), "%q is not a rule: %s", text, err)
			}
		}
	}
	rules("allowedTools", a.AllowedTools)
	rules("disallowedTools", a.DisallowedTools)
	for _, name := range slices.Sorted(maps.Keys(a.Subagents)) {
		sub, key := a.Subagents[name], child("subagents", name)
		rules(child(key, "tools"), sub.Tools)
		rules(child(key, "disallowedTools"), sub.DisallowedTools)
		for i, server := range sub.MCPServers {
			if _, ok := a.MCPServers[server]; !ok {
				faults.add(element(child(key, "mcpServers"), i), "%q is not in mcpServers", server)
			}
		}
	}

	if a.OutputSchema != nil {
		if _, err := toolschema.CompileOutput(a.OutputSchema); err != nil {
			faults.add("outputSchema", "%s", err)
		}
	}

	for i, t := range a.CustomTools {
		if t.Hash != "" && !fileHash().MatchString(t.Hash) {
			faults.add(child(element("customTools", i), "hash"), "must be sha256: and 64 lower-case hex digits")
		}
	}

	return faults.err()
}

func isHTTP(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
