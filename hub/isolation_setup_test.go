package hub_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/protocol/openai"
)

// issuer is an identity provider of all organizations, without a login page.
type issuer struct {
	*httptest.Server
	key  *rsa.PrivateKey
	user string // who signs in next
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &issuer{key: key}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	reply := func(w http.ResponseWriter, body any) { _ = api.Encode(w, http.StatusOK, body) }
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"keys": []map[string]string{{
			"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", "n": encoded(key.N.Bytes()), "e": encoded(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query() // the code has what the token needs
		back := url.Values{"state": {q.Get("state")}, "code": {q.Get("client_id") + " " + q.Get("nonce")}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		client, nonce, _ := strings.Cut(r.FormValue("code"), " ")
		now := time.Now()
		reply(w, map[string]any{"access_token": "opaque", "token_type": "Bearer", "id_token": p.sign(map[string]any{
			"iss": p.URL, "aud": client, "nonce": nonce, "sub": p.user, "preferred_username": p.user, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		})})
	})
	return p
}

func encoded(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func (p *issuer) sign(claims map[string]any) string {
	body, _ := json.Marshal(claims) // strings and numbers
	text := encoded([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + encoded(body)
	sum := sha256.Sum256([]byte(text))
	signature, _ := rsa.SignPKCS1v15(nil, p.key, crypto.SHA256, sum[:]) // the key is valid
	return text + "." + encoded(signature)
}

// signIn is a login of a browser in external mode.
func (s *server) signIn(p *issuer, org, user string) string {
	s.t.Helper()
	p.user = user
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	browser := &http.Client{Jar: jar, Transport: s.client.Transport}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/auth/login?org="+org, nil)
	require.NoError(s.t, err)
	res, err := browser.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	var body map[string]any
	require.NoError(s.t, json.NewDecoder(res.Body).Decode(&body))
	return body["access_token"].(string)
}

// org is an organization with one object of each kind that is called "same" in both organizations,
// and one that is called "only-" and its name.
type org struct {
	*server
	name          string
	admin, member string // access tokens
	ids, users    []string
	sample        []string // one id of each kind at least
	asking        string   // the messages of a chat that waits
	wait          string   // what it waits for
	key           string   // of its runtimes
	export        string
	label         string // of an answer

	response, item, request string // ids at the interface of OpenAI: of a response, its item, and a call that waits
}

// openOrgs serves two organizations in external mode.
func openOrgs(t *testing.T, database string, change ...func(*hub.Config)) [2]*org {
	t.Helper()
	driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) { return runtimeWithFile(t, req) }}
	t.Cleanup(driver.Close)
	s := open(t, database, func(cfg *hub.Config) {
		cfg.External, cfg.OpsKey, cfg.ChatPushKey, cfg.Deployer = true, opsKey, pushKey, driver
		cfg.BootstrapAdmins = []string{"alpha/ada", "beta/ada"}
		for _, f := range change {
			f(cfg)
		}
	})
	idp := newIssuer(t)
	var orgs [2]*org
	for i, name := range []string{"alpha", "beta"} {
		o := &org{server: s, name: name}
		a := o.send("POST", tenantClients, "", `{"org":"`+name+`","clientId":"hub-`+name+`","clientSecret":"s","issuer":"`+idp.URL+`"}`, "X-Ops-Key", opsKey)
		require.Equal(t, http.StatusCreated, a.status, a.text)
		o.admin, o.member = s.signIn(idp, name, "ada"), s.signIn(idp, name, "bob")
		o.fill()
		orgs[i] = o
	}
	return orgs
}

// runtimeWithFile returns a runtime whose directory has the system prompt of its agent.
func runtimeWithFile(t *testing.T, req deploy.Request) (http.Handler, error) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte(req.Config.SystemPrompt), 0o600); err != nil {
		return nil, err
	}
	rt, err := runtime.New(t.Context(), runtime.Config{
		CWD: dir, APIKeys: []string{string(req.Env["AGENT_HTTP_API_KEY"])}, Agents: []agent.Agent{req.Config},
		Protocols: map[string]func(*runtime.Runtime) http.Handler{"/openai/v1": func(rt *runtime.Runtime) http.Handler { return openai.New(openai.Config{Host: rt}) }},
	})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
	}
	return rt, err
}

// send sends a request with pairs of headers.
func (o *org) send(method, path, token, body string, headers ...string) response {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.url+path, strings.NewReader(body))
	require.NoError(o.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(body, "--x\r\n") {
			req.Header.Set("Content-Type", formType)
		}
	}
	res, err := o.client.Do(req)
	require.NoError(o.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(o.t, err)
	return response{t: o.t, status: res.StatusCode, header: res.Header, text: string(text)}
}

// made is the response to a creation. Its id is one of the organization.
func (o *org) made(method, path, body string) map[string]any {
	o.t.Helper()
	a := o.send(method, path, o.admin, body)
	require.Contains(o.t, []int{200, 201, 202}, a.status, "%s %s: %s", method, path, a.text)
	if !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		return nil
	}
	object := a.want(a.status)
	if id, ok := object["id"].(string); ok && strings.HasPrefix(path, "/api/v1/") {
		o.ids = append(o.ids, id)
	}
	return object
}

// fill creates the objects that do not exist.
func (o *org) fill() {
	o.t.Helper()
	o.ids = nil
	for _, user := range o.send("GET", users, o.admin, "").want(200)["items"].([]any) {
		o.ids = append(o.ids, user.(map[string]any)["id"].(string))
	}
	o.users = slices.Clone(o.ids)
	for _, token := range []string{o.admin, o.member} {
		for _, session := range o.send("GET", "/auth/sessions", token, "").want(200)["items"].([]any) {
			o.ids = append(o.ids, session.(map[string]any)["id"].(string))
		}
	}
	of := "of " + o.name
	o.made("PUT", "/api/v1/admin/aigc/config", `{"enabled":true,"companyName":"`+of+`","contentProducer":"00119144030071526726XG10000","signing":{"enabled":true}}`)
	o.made("POST", issue, `{"name":"same"}`)
	o.made("POST", issue, `{"name":"token `+of+`"}`)
	o.sample = slices.Clone(o.ids)
	for _, name := range []string{"same", "only-" + o.name} {
		made := len(o.ids)
		field := func(names ...string) string {
			text := `{"name":"` + name + `"`
			for _, n := range names {
				text += `,"` + n + `":"` + n + " " + of + `"`
			}
			return text
		}
		provider := o.made("POST", providers, field()+`,"protocol":"openai","baseUrl":"https://`+o.name+`.example.com","apiKey":"key-`+o.name+`"}`)["id"].(string)
		o.made("POST", mcps, field("title", "description")+`,"transport":"http","url":"https://mcp.`+o.name+`.example.com","headers":{"X":"value `+of+`"}}`)
		o.made("POST", knowledge, field("title", "description")+`,"datasetId":"`+o.name+`.example:`+name+`"}`)
		o.made("POST", tools, form(name+".ts", "export default {name: '"+name+"', description: 'tool "+of+"', call() {}}", "title", "title "+of))
		o.made("POST", skills, form("SKILL.md", "---\nname: "+name+"\ndescription: skill "+of+".\n---\nText "+of+".\n", "title", "title "+of))
		o.made("POST", agents, field("title", "description", "systemPrompt")+`,"providerId":"`+provider+`","model":"m","mcps":["`+name+`"],"knowledge":["`+name+`"],"skills":["`+name+`"],"tools":["`+name+`"]}`)
		o.made("PUT", "/api/v1/admin/budgets/agent/"+name, `{"period":"day","unit":"tokens","hard":1000000}`)
		o.export = o.send("GET", agents+"/"+name+"/export", o.admin, "").text
		require.Contains(o.t, o.export, of)
		o.made("PUT", agents+"/"+name, field("title", "description", "systemPrompt")+`,"providerId":"demo","model":"demo","mcps":[],"knowledge":["`+name+`"],"skills":[],"tools":["Read","Write"],"permissionMode":"default"}`)
		o.made("POST", scenes, field("title", "description", "prompt")+`,"agentName":"`+name+`"}`)
		deployment := agents + "/" + name + "/deploy"
		o.made("POST", deployment, "")
		require.Eventually(o.t, func() bool {
			return o.send("GET", deployment, o.admin, "").want(200)["state"] == "running"
		}, time.Minute, 20*time.Millisecond)
		o.key = o.send("GET", deployment, o.admin, "").want(200)["apiKey"].(string)
		sessions := "/api/v1/agents/" + name + "/chat/sessions"
		chat := o.made("POST", sessions, `{"title":"chat `+of+`"}`)["id"].(string)
		upload := o.made("POST", "/api/v1/agents/"+name+"/chat/uploads", "file "+of+" and "+name)["id"].(string)
		a := o.send("POST", sessions+"/"+chat+"/messages", o.admin, `{"message":"text `+of+`","content":[{"type":"file","uploadId":"`+upload+`"}]}`)
		require.Contains(o.t, a.text, "hub.saved", a.text)
		if label := regexp.MustCompile(`"aigc":(\{[^}]*\})`).FindStringSubmatch(a.text); label != nil {
			o.label = label[1]
		}
		o.asking = sessions + "/" + o.made("POST", sessions, `{"title":"asks `+of+`"}`)["id"].(string) + "/messages"
		a = o.send("POST", o.asking, o.admin, `{"message":"/tool Write {\"file_path\":\"`+of+`\",\"content\":\"`+of+`\"}","inputs":["approval"]}`)
		found := regexp.MustCompile(`"messageId":"([^"]+)","status":"waiting".*"pending":\[\{"id":"([^"]+)"`).FindStringSubmatch(a.text)
		require.NotNil(o.t, found, a.text)
		o.wait = found[2]
		o.ids = append(o.ids, found[1:]...)
		o.made("POST", pushChats, pushed("same", name, of))
		if name != "same" {
			o.sample = append(o.sample, o.ids[made:]...)
		}
	}
	slices.Sort(o.ids)
	o.ids = slices.Compact(o.ids)
}

func pushed(id, name, of string) string {
	const at = `"2026-01-02T03:04:05Z"`
	return `{"sessions":[{"id":"` + id + `","agent_name":"` + name + `","title":"pushed ` + of + `","created_at":` + at + `,"updated_at":` + at + `,
		"messages":[{"id":"m","role":"user","content":"pushed ` + of + `","created_at":` + at + `}]}]}`
}
