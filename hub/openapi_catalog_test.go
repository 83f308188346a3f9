package hub_test

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	agents    = "/api/v1/admin/agents"
	tools     = "/api/v1/admin/tools"
	skills    = "/api/v1/admin/skills"
	scenes    = "/api/v1/admin/scenes"
	mcps      = "/api/v1/admin/mcps"
	knowledge = "/api/v1/admin/knowledge"
	formType  = "multipart/form-data; boundary=x"
	yamlType  = "application/yaml"
)

// form returns a multipart body with a file and fields, which are names and values.
func form(file, content string, fields ...string) string {
	var b strings.Builder
	b.WriteString("--x\r\nContent-Disposition: form-data; name=file; filename=\"" + file + "\"\r\n\r\n" + content + "\r\n")
	for i := 0; i < len(fields); i += 2 {
		b.WriteString("--x\r\nContent-Disposition: form-data; name=" + fields[i] + "\r\n\r\n" + fields[i+1] + "\r\n")
	}
	return b.String() + "--x--\r\n"
}

// upload sends a form that must succeed.
func (c *contract) upload(status int, method, path, token, file, content string, fields ...string) {
	c.t.Helper()
	c.send(method, path, token, form(file, content, fields...), "Content-Type", formType).want(status)
}

// refuseForm sends a form that is to be rejected with that code.
func (c *contract) rejectForm(status int, code wire.Code, method, path, token, form string) {
	c.t.Helper()
	c.reject(status, code, method, path, token, form, "Content-Type", formType)
}

func (c *contract) catalog(admin string) {
	c.knowledgeSets(admin)
	c.mcpServers(admin)
	c.tools(admin)
	c.skills(admin)
	c.agents(admin)
	c.bindings(admin)
	c.exports(admin)
	c.scenes(admin)
	c.components(admin)
}

// stale sends a change and a deletion of an old version, and the change for what does not exist.
func (c *contract) stale(path, token, body string) {
	c.t.Helper()
	c.reject(412, wire.PreconditionFailed, "PUT", path, token, body, "If-Match", "99")
	c.reject(412, wire.PreconditionFailed, "DELETE", path, token, "", "If-Match", "99")
	name := path[strings.LastIndex(path, "/")+1:]
	c.reject(404, wire.NotFound, "PUT", strings.TrimSuffix(path, name)+"nobody", token, strings.Replace(body, `"`+name+`"`, `"nobody"`, 1))
}

func (c *contract) knowledgeSets(admin string) {
	body := `{"name":"handbook","title":"The handbook","description":"For staff","datasetId":"hb","enabled":true}`
	c.ok(201, "POST", knowledge, admin, body)
	c.ok(201, "POST", knowledge, admin, `{"name":"faq","title":null,"description":null,"datasetId":"faq","enabled":null}`)
	c.reject(409, wire.NameTaken, "POST", knowledge, admin, body)
	c.faulty("POST", knowledge, admin, `{}`, `{"name":"A","datasetId":"x"}`, `{"name":"a","datasetId":" "}`, `{"name":"a","datasetId":"x","title":"a\u0007"}`)
	c.ok(200, "PUT", knowledge+"/handbook", admin, body)
	c.send("PUT", knowledge+"/handbook", admin, `{"datasetId":"hb","description":"For the staff"}`, "If-Match", `"1"`).want(200)
	c.faulty("PUT", knowledge+"/handbook", admin, `{"datasetId":""}`)
	c.stale(knowledge+"/handbook", admin, body)
	c.unpaged(knowledge, admin)
}

func (c *contract) mcpServers(admin string) {
	const web = `{"name":"web","transport":"http","url":"https://mcp.example.com","headers":{"authorization":"Bearer t-1234"},
		"oauth":{"clientId":"hub","clientSecret":"s-1234","issuer":"https://login.example.com","scope":"tools/read","audience":"tools"},"timeout":"5m","instructions":true}`
	const files = `{"name":"files","transport":"stdio","command":"mcp-files","args":["/srv"],"env":{"TOKEN":"t-1234"},"cwd":"files","sandbox":{"read":["/srv"],"write":["files"],"network":"proxy","domains":["files.example.com"]},"title":"Files","description":"Files of a project","enabled":true}`
	for _, body := range []string{web, files} {
		c.ok(201, "POST", mcps, admin, body)
		c.reject(409, wire.NameTaken, "POST", mcps, admin, body)
	}
	c.faulty("POST", mcps, admin, `{}`, `{"name":"a__b","transport":"sse","url":"https://mcp.example.com"}`, `{"name":"a","transport":"tcp"}`,
		`{"name":"a","transport":"http","url":"https://mcp.example.com","headers":{"X":"a\u0007"}}`,
		`{"name":"a","transport":"stdio","command":"x","cwd":"a\u0007"}`, `{"name":"a","transport":"stdio","command":"x","sandbox":{"mode":"off"}}`)
	c.ok(200, "PUT", mcps+"/files", admin, strings.Replace(files, `"cwd":"files"`, `"cwd":null`, 1))
	c.ok(200, "PUT", mcps+"/files", admin, strings.Replace(files, `"network":"proxy"`, `"network":null`, 1))
	c.ok(200, "PUT", mcps+"/files", admin, strings.Replace(files, "t-1234", "***", 1))
	c.ok(200, "PUT", mcps+"/files", admin, strings.Replace(files, "t-1234", "t-5678", 1))
	c.ok(200, "PUT", mcps+"/web", admin, web)
	c.ok(200, "PUT", mcps+"/web", admin, strings.Replace(web, `"5m"`, `"6m"`, 1))
	c.faulty("PUT", mcps+"/web", admin, `{"transport":""}`)
	c.stale(mcps+"/files", admin, files)
	c.unpaged(mcps, admin)
}

func (c *contract) tools(admin string) {
	const source = "export default {name: 'weather', description: 'd', call() {}}"
	c.upload(201, "POST", tools, admin, "weather.ts", source, "title", "Weather", "description", "Reports the weather.", "descriptionEn", "x")
	c.rejectForm(409, wire.NameTaken, "POST", tools, admin, form("weather.ts", source))
	c.rejectForm(422, code.ArtifactInvalid, "POST", tools, admin, form("weather.ts", "export default 1"))
	const file = tools + "/weather/file"
	c.upload(200, "PUT", file, admin, "weather.mts", source)
	c.rejectForm(422, code.ArtifactInvalid, "PUT", file, admin, form("weather.ts", strings.Replace(source, "weather", "other", 1)))
	c.send("PUT", file, admin, form("a.ts", source), "Content-Type", formType, "If-Match", "9").wantError(412, string(wire.PreconditionFailed))
	c.rejectForm(404, wire.NotFound, "PUT", tools+"/nobody/file", admin, form("a.ts", source))
	for path, method := range map[string]string{tools: "POST", file: "PUT"} {
		c.rejectForm(400, wire.ValidationFailed, method, path, admin, strings.Replace(form("", ""), "; filename=\"\"", "", 1))
	}

	c.ok(200, "PUT", tools+"/weather", admin, `{"title":"The weather","description":null}`)
	c.faulty("PUT", tools+"/weather", admin, `{"title":"a\u0007"}`)
	c.stale(tools+"/weather", admin, `{}`)
	for _, path := range []string{tools + "/weather", tools + "/Read"} {
		c.ok(200, "GET", path, admin, "")
	}
	c.reject(403, code.BuiltinReadonly, "PUT", tools+"/Read", admin, `{}`)
	c.reject(403, code.BuiltinReadonly, "DELETE", tools+"/Read", admin, "")
	c.rejectForm(403, code.BuiltinReadonly, "PUT", tools+"/Read/file", admin, form("a.ts", source))
	res := c.send("GET", tools+"/weather/download", admin, "")
	require.Equal(c.t, source, res.text)
	require.Equal(c.t, http.StatusNotModified, c.send("GET", tools+"/weather/download", admin, "", "If-None-Match", res.header.Get("Etag")).status)
	require.Equal(c.t, source[1:4], c.send("GET", tools+"/weather/download", admin, "", "Range", "bytes=1-3").text)
	c.reject(412, wire.PreconditionFailed, "GET", tools+"/weather/download", admin, "", "If-Match", `"other"`)
	c.reject(416, wire.InvalidRequest, "GET", tools+"/weather/download", admin, "", "Range", "bytes=9999-")
	c.reject(404, wire.NotFound, "GET", tools+"/Read/download", admin, "")
	c.unpaged(tools, admin)
}

func (c *contract) skills(admin string) {
	const public = "/api/v1/skills"
	const document = "---\nname: review\ndescription: Reviews changes.\n---\nRead the diff.\n"
	c.upload(201, "POST", skills, admin, "SKILL.md", document, "type", "expert", "title", "Review", "descriptionEn", "x")
	c.rejectForm(409, wire.NameTaken, "POST", skills, admin, form("SKILL.md", document))
	c.rejectForm(422, code.ArtifactInvalid, "POST", skills, admin, form("SKILL.md", "---\nname: [\n---\n"))
	const file = skills + "/review/file"
	c.upload(200, "PUT", file, admin, "SKILL.md", document+"Carefully.\n")
	c.rejectForm(422, code.ArtifactInvalid, "PUT", file, admin, form("SKILL.md", strings.Replace(document, "review", "other", 1)))
	c.send("PUT", file, admin, form("SKILL.md", document), "Content-Type", formType, "If-Match", "9").wantError(412, string(wire.PreconditionFailed))
	c.rejectForm(404, wire.NotFound, "PUT", skills+"/nobody/file", admin, form("SKILL.md", document))
	for path, method := range map[string]string{skills: "POST", file: "PUT"} {
		c.rejectForm(400, wire.ValidationFailed, method, path, admin, form("SKILL.md", document, "type", "secret"))
	}

	c.ok(200, "PUT", skills+"/review", admin, `{"title":"Reviews","type":"community"}`)
	c.faulty("PUT", skills+"/review", admin, `{"type":"secret"}`)
	c.stale(skills+"/review", admin, `{}`)
	for _, list := range []string{skills, public} {
		c.ok(200, "GET", list+"/review", admin, "")
		c.reject(404, wire.NotFound, "GET", list+"/nobody", admin, "")
		c.reject(400, wire.InvalidRequest, "GET", list+"?type=secret", admin, "")
		c.ok(200, "GET", list+"?type=community&q=REV", admin, "")
		c.unpaged(list, admin)
	}
	c.ok(200, "GET", public+"/review/download", admin, "")
	c.reject(404, wire.NotFound, "GET", public+"/nobody/download", admin, "")
}

// coder is the body of an agent with every field.
const coder = `{"name":"coder","title":"Coder","titleEn":"Coder","description":"Writes code.","descriptionEn":"Writes code.","icon":"🛠","enabled":true,"isDefault":true,
	"sandbox":{"mode":"required","read":["/srv"],"write":["out"],"network":"proxy","domains":["*.example.com","example.com:8443"]},
	"providerId":"demo","model":"demo","systemPrompt":"You write code.\n","maxTurns":7,"permissionMode":"plan","allowedTools":["Read","weather"],"disallowedTools":["Write"],
	"tools":["Read","weather"],"skills":["review"],"mcps":["web"],"knowledge":["faq",{"name":"handbook","description":"for coders"}],
	"subagents":{"reviewer":{"description":"Reviews","prompt":"Review.","tools":[],"maxTurns":3}},"settingSources":["project"],
	"access":{"users":["max"],"groups":["staff"],"everyone":true},"maxOutputTokens":2000,"contextWindow":100000,"temperature":0.5,"thinking":{"type":"adaptive","effort":"low"},"extraUserSkillDirs":["/srv/skills"],"commandEnv":{"GIT_AUTHOR_NAME":"Coder"},"outputSchema":{"type":"object"},
	"limits":{"runTimeout":"10m","llmIdleTimeout":"90s","toolTimeout":"1m","mcpConnectTimeout":"5s","mcpStartTimeout":"10m","maxToolOutputBytes":1000,"maxResponseBytes":1000},
	"deployment":{"memory":"512Mi","cpu":"500m","processes":64,"replicas":1}}`

func (c *contract) agents(admin string) {
	const public = "/api/v1/agents"
	c.ok(201, "POST", agents, admin, coder)
	c.ok(201, "POST", agents, admin, `{"name":"writer","title":null,"enabled":false,"isDefault":null,"providerId":"demo","model":"demo","maxTurns":null,"allowedTools":null,"sandbox":null,"subagents":null}`)
	c.reject(409, wire.NameTaken, "POST", agents, admin, coder)
	with := func(fields string) string {
		return c.override(`{"name":"a","providerId":"demo","model":"demo"}`, fields)
	}
	c.faulty("POST", agents, admin, `{}`, with(`,"name":"manifest"`), with(`,"name":"A"`), with(`,"providerId":""`), with(`,"providerId":"`+unknownID+`"`),
		with(`,"maxTurns":0`), with(`,"permissionMode":"root"`), with(`,"tools":["Read","Read"]`), with(`,"settingSources":["etc"]`),
		with(`,"subagents":{"r":{"description":"","prompt":""}}`), with(`,"allowedTools":[""]`), with(`,"sandbox":{"mode":"on"}`), with(`,"sandbox":{"write":["a\u0007"]}`), with(`,"skills":["`+unknownID+`"]`),
		with(`,"temperature":3`), with(`,"thinking":{"type":"deep"}`), with(`,"extraUserSkillDirs":["skills"]`), with(`,"commandEnv":{"A-B":"x"}`), with(`,"outputSchema":{"type":"array"}`), with(`,"limits":{"runTimeout":"-1s"}`), with(`,"access":{"users":[""]}`), with(`,"deployment":{"memory":"1GB"}`),
		with(`,"deployment":{"cpu":"1"}`), with(`,"deployment":{"processes":8}`), with(`,"deployment":{"replicas":101}`))
	for _, list := range []string{agents, public} {
		c.unpaged(list, admin)
		c.ok(200, "GET", list+"/coder", admin, "")
		c.reject(404, wire.NotFound, "GET", list+"/nobody", admin, "")
	}
	c.ok(200, "GET", agents+"/writer", admin, "")
	c.reject(404, wire.NotFound, "GET", public+"/writer", admin, "")
	c.ok(200, "PUT", agents+"/coder", admin, coder)
	c.send("PUT", agents+"/coder", admin, strings.Replace(coder, `"temperature":0.5`, `"temperature":1`, 1), "If-Match", `"1"`).want(200)
	c.ok(200, "PUT", agents+"/coder", admin, strings.Replace(coder, `"mode":"required"`, `"mode":null`, 1))
	c.ok(200, "PUT", agents+"/coder", admin, coder)
	c.faulty("PUT", agents+"/coder", admin, `{}`)
	c.ok(200, "PUT", agents+"/coder", admin, strings.Replace(coder, `"staff"`, `"team"`, 1))
	c.stale(agents+"/coder", admin, coder)
	const thinker = `{"name":"thinker","providerId":"demo","model":"demo","thinking":{"budgetTokens":1024}}`
	c.ok(201, "POST", agents, admin, thinker)
	c.ok(200, "PUT", agents+"/thinker", admin, strings.Replace(thinker, "1024", "2048", 1))
	for _, path := range []string{agents, public, agents + "/thinker", public + "/thinker"} {
		c.ok(200, "GET", path, admin, "")
	}
	text := c.send("GET", agents+"/thinker/export", admin, "").text
	c.send("POST", agents+"/import?replace=true", admin, text, "Content-Type", yamlType).want(200)
	c.ok(204, "DELETE", agents+"/thinker", admin, "")
	c.send("POST", agents+"/import", admin, text, "Content-Type", yamlType).want(201)
	c.ok(204, "DELETE", agents+"/thinker", admin, "")
	m := c.send("GET", public+"/manifest", admin, "")
	m.want(200)
	require.Equal(c.t, http.StatusNotModified, c.send("GET", public+"/manifest", admin, "", "If-None-Match", m.header.Get("Etag")).status)
}

func (c *contract) bindings(admin string) {
	for field, name := range map[string]string{"tools": "weather", "skills": "review", "mcps": "web", "knowledge": "handbook"} {
		path := agents + "/coder/" + field
		c.ok(200, "GET", path, admin, "")
		c.send("PUT", path, admin, `{"items":[]}`, "If-Match", "*").want(200)
		c.reject(412, wire.PreconditionFailed, "PUT", path, admin, `{"items":[]}`, "If-Match", "1")
		c.faulty("PUT", path, admin, `{}`, `{"items":["`+unknownID+`"]}`, `{"items":["x","x"]}`)
		c.reject(404, wire.NotFound, "PUT", agents+"/nobody/"+field, admin, `{"items":[]}`)
		c.reject(404, wire.NotFound, "GET", agents+"/nobody/"+field, admin, "")
		if field == "mcps" || field == "knowledge" {
			name += `","` + map[string]string{"mcps": "files", "knowledge": "faq"}[field]
		}
		c.ok(200, "PUT", path, admin, `{"items":["`+name+`"]}`)
	}
	c.ok(200, "PUT", agents+"/coder/knowledge", admin, `{"items":[{"name":"handbook","description":"for coders"},"faq"]}`)
}

func (c *contract) exports(admin string) {
	const imported = agents + "/import"
	res := c.send("GET", agents+"/coder/export", admin, "")
	require.Equal(c.t, 200, res.status, res.text)
	c.reject(404, wire.NotFound, "GET", agents+"/nobody/export", admin, "")
	c.reject(409, wire.NameTaken, "POST", imported, admin, res.text, "Content-Type", yamlType)
	c.send("POST", imported+"?replace=true", admin, res.text, "Content-Type", yamlType).want(200)
	c.send("POST", imported, admin, strings.Replace(res.text, "id: coder", "id: copy", 1), "Content-Type", yamlType).want(201)
	c.reject(422, code.ArtifactInvalid, "POST", imported, admin, "agents: []", "Content-Type", yamlType)
}

func (c *contract) scenes(admin string) {
	const public = "/api/v1/scenes"
	body := `{"name":"fix","title":"Fix","titleEn":"Fix","description":"Fixes a bug","descriptionEn":"x","icon":"🐞","agentName":"coder","prompt":"Fix it.","order":3,"enabled":true}`
	c.ok(201, "POST", scenes, admin, body)
	c.reject(409, wire.NameTaken, "POST", scenes, admin, body)
	c.faulty("POST", scenes, admin, `{}`, `{"name":"a","agentName":"`+unknownID+`"}`, `{"name":"a","agentName":"coder","order":1000001}`)
	c.ok(200, "PUT", scenes+"/fix", admin, body)
	c.ok(200, "PUT", scenes+"/fix", admin, strings.Replace(body, "Fix it.", "Fix it now.", 1))
	c.faulty("PUT", scenes+"/fix", admin, `{"agentName":""}`)
	c.stale(scenes+"/fix", admin, body)
	long := strings.Repeat("x", 17_000)
	c.ok(201, "POST", agents, admin, `{"name":"long","providerId":"demo","model":"m","systemPrompt":"`+long+`"}`)
	c.ok(201, "POST", scenes, admin, `{"name":"long","agentName":"long","prompt":"`+long+`"}`)
	c.ok(200, "GET", agents, admin, "")
	c.ok(200, "GET", "/api/v1/agents", admin, "")
	for _, list := range []string{scenes, public} {
		c.unpaged(list, admin)
		c.ok(200, "GET", list+"/fix", admin, "")
		c.reject(404, wire.NotFound, "GET", list+"/nobody", admin, "")
	}
	c.reject(409, wire.Conflict, "DELETE", agents+"/coder", admin, "")
	c.ok(204, "DELETE", scenes+"/long", admin, "")
	c.ok(204, "DELETE", agents+"/long", admin, "")
}

// components deletes most of what the walk has created.
func (c *contract) components(admin string) {
	used := providers + "/" + c.ok(201, "POST", providers, admin, `{"name":"Used","protocol":"openai"}`)["id"].(string)
	c.ok(200, "PUT", agents+"/writer", admin, `{"providerId":"`+strings.TrimPrefix(used, providers+"/")+`","model":"m"}`)
	for path, code := range map[string]wire.Code{
		tools + "/weather": code.ToolInUse, skills + "/review": code.InUse, mcps + "/files": code.InUse, knowledge + "/faq": code.InUse, used: code.InUse,
	} {
		c.reject(409, code, "DELETE", path, admin, "")
	}
	for _, path := range []string{mcps + "/web", mcps + "/files", knowledge + "/faq"} {
		c.ok(200, "GET", path, admin, "")
	}
	for _, path := range []string{scenes, agents, tools, skills, mcps, knowledge} {
		c.reject(404, wire.NotFound, "GET", path+"/nobody", admin, "")
		c.reject(404, wire.NotFound, "DELETE", path+"/nobody", admin, "")
	}
	for _, path := range []string{
		scenes + "/fix", agents + "/coder", agents + "/copy", agents + "/writer", skills + "/review", mcps + "/web", mcps + "/files", knowledge + "/faq", used,
	} {
		c.ok(204, "DELETE", path, admin, "")
	}
	const source = "export default {name: 'other', description: 'd', call() {}}"
	c.upload(201, "POST", tools, admin, "other.ts", source)
	c.ok(204, "DELETE", tools+"/other", admin, "")
}

// unseenCatalog are further rows of unseen.
var unseenCatalog = map[string]string{
	"POST /api/v1/admin/agents 409 conflict":        "it takes 10,000 components: catalog.TestComponentsAreBounded",
	"POST /api/v1/admin/agents/import 409 conflict": "it takes 10,000 components: catalog.TestComponentsAreBounded",
	"POST /api/v1/admin/tools 409 conflict":         "it takes 10,000 components: catalog.TestComponentsAreBounded",
	"POST /api/v1/admin/skills 409 conflict":        "it takes 10,000 components: catalog.TestComponentsAreBounded",
	"POST /api/v1/admin/scenes 409 conflict":        "it takes 10,000 components: catalog.TestComponentsAreBounded",
	"POST /api/v1/admin/mcps 409 conflict":          "it takes 10,000 components: catalog.TestComponentsAreBounded",
	"POST /api/v1/admin/knowledge 409 conflict":     "it takes 10,000 components: catalog.TestComponentsAreBounded",
	"PUT /api/v1/admin/agents/{name} 409":           "it takes 32 MiB of agents: catalog.TestAgentsAreBoundedInBytes",
	"PUT /api/v1/admin/agents/{name}/tools 409":     "it takes 32 MiB of agents: catalog.TestAgentsAreBoundedInBytes",
	"PUT /api/v1/admin/agents/{name}/skills 409":    "it takes 32 MiB of agents: catalog.TestAgentsAreBoundedInBytes",
	"PUT /api/v1/admin/agents/{name}/mcps 409":      "it takes 32 MiB of agents: catalog.TestAgentsAreBoundedInBytes",
	"PUT /api/v1/admin/agents/{name}/knowledge 409": "it takes 32 MiB of agents: catalog.TestAgentsAreBoundedInBytes",
}
