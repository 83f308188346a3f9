package client_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"strings"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	base = "http://hub.example"
	uuid = "0198c0de-0000-7000-8000-000000000000"
)

func bytesOf(f func(c *client.Client, ctx context.Context) ([]byte, error)) func(ctx context.Context, c *client.Client) (any, error) {
	return func(ctx context.Context, c *client.Client) (any, error) {
		_, err := f(c, ctx)
		return nil, err
	}
}

// first returns the first element of a sequence.
func first[T any](all iter.Seq2[T, error]) (any, error) {
	for item, err := range all {
		return item, err
	}
	return nil, nil
}

func closed[T io.Closer](file T, err error) (any, error) {
	if err == nil {
		err = file.Close()
	}
	return nil, err
}

func fileOf(name string) client.Upload {
	return client.Upload{FileName: name, Content: strings.NewReader("content"), Title: "t"}
}

// calls have a call for every other route. It returns what the client decoded, or nil if that is
// not the whole response.
var calls = map[string]func(ctx context.Context, c *client.Client) (any, error){
	"GET /health":                func(ctx context.Context, c *client.Client) (any, error) { return c.Health(ctx) },
	"GET /health/ready":          func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Ready(ctx) },
	"GET /openapi.yaml":          bytesOf((*client.Client).Document),
	"GET /.well-known/jwks.json": bytesOf((*client.Client).Keys),
	"GET /auth/mode":             func(ctx context.Context, c *client.Client) (any, error) { return c.Auth.Mode(ctx) },
	"POST /auth/setup": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Auth.Setup(ctx, wire.SetupRequest{Username: "ada", Password: "correct horse", SetupToken: "t"})
	},
	"POST /auth/login": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Auth.Login(ctx, "ada", "correct horse")
	},
	"POST /auth/register": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Auth.Register(ctx, wire.RegisterRequest{Token: "t", Username: "ada", Password: "correct horse"})
	},
	"POST /auth/sessions": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Auth.Authorize(ctx, strings.Repeat("A", 43))
	},
	"POST /auth/refresh": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Auth.Refresh(ctx) },
	"POST /auth/logout":  func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Auth.Logout(ctx) },
	"POST /auth/change-password": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Auth.ChangePassword(ctx, "correct horse", "battery staple")
	},
	"GET /auth/invite/{token}": func(ctx context.Context, c *client.Client) (any, error) { return c.Auth.CheckInvite(ctx, "t") },
	"GET /auth/org-check": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Auth.CheckOrganization(ctx, "acme")
	},
	"GET /auth/userinfo":         func(ctx context.Context, c *client.Client) (any, error) { return c.Auth.UserInfo(ctx) },
	"GET /auth/sessions":         func(ctx context.Context, c *client.Client) (any, error) { return first(c.Auth.Sessions(ctx)) },
	"DELETE /auth/sessions/{id}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Auth.EndSession(ctx, uuid) },

	"GET /api/v1/ops/tenant-clients": func(ctx context.Context, c *client.Client) (any, error) { return first(c.TenantClients.List(ctx)) },
	"POST /api/v1/ops/tenant-clients": func(ctx context.Context, c *client.Client) (any, error) {
		return c.TenantClients.Set(ctx, wire.TenantClientRequest{Org: "acme", ClientID: "hub", RequiredClaim: &wire.RequiredClaim{Name: "g", Values: []string{"x"}}})
	},
	"DELETE /api/v1/ops/tenant-clients/{org}": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.TenantClients.Delete(ctx, "acme")
	},

	"GET /api/v1/admin/users": func(ctx context.Context, c *client.Client) (any, error) { return first(c.Users.List(ctx)) },
	"POST /api/v1/admin/users": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Users.Create(ctx, wire.CreateUserRequest{Username: "ada", Password: "correct horse", Role: rbac.Member})
	},
	"GET /api/v1/admin/users/{id}": func(ctx context.Context, c *client.Client) (any, error) { return c.Users.Get(ctx, uuid) },
	"PATCH /api/v1/admin/users/{id}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Users.Update(ctx, uuid, wire.ChangeUserRequest{Role: new(rbac.Admin), Status: new("active")})
	},
	"DELETE /api/v1/admin/users/{id}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Users.Delete(ctx, uuid) },
	"POST /api/v1/admin/users/{id}/reset-password": func(ctx context.Context, c *client.Client) (any, error) {
		password, err := c.Users.ResetPassword(ctx, uuid)
		return map[string]any{"password": password}, err
	},
	"GET /api/v1/admin/users/{id}/sessions":    func(ctx context.Context, c *client.Client) (any, error) { return first(c.Users.Sessions(ctx, uuid)) },
	"DELETE /api/v1/admin/users/{id}/sessions": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Users.EndSessions(ctx, uuid) },
	"GET /api/v1/admin/users/{id}/tokens":      func(ctx context.Context, c *client.Client) (any, error) { return first(c.Users.Tokens(ctx, uuid)) },
	"DELETE /api/v1/admin/users/{id}/tokens/{tokenId}": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Users.RevokeToken(ctx, uuid, uuid)
	},
	"GET /api/v1/admin/invites": func(ctx context.Context, c *client.Client) (any, error) { return first(c.Users.Invites(ctx)) },
	"POST /api/v1/admin/invites": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Users.Invite(ctx, rbac.Member, "x")
	},
	"DELETE /api/v1/admin/invites/{id}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Users.RevokeInvite(ctx, uuid) },
	"POST /api/v1/cli/issue-token": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Auth.IssueToken(ctx, wire.IssueTokenRequest{Name: "ci", ExpiresInDays: new(3)})
	},
	"GET /api/v1/cli/tokens":         func(ctx context.Context, c *client.Client) (any, error) { return first(c.Auth.Tokens(ctx)) },
	"DELETE /api/v1/cli/tokens/{id}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Auth.RevokeToken(ctx, uuid) },

	"GET /api/v1/agents": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Agents.Enabled.List(ctx, "x"))
	},
	"GET /api/v1/agents/{name}":   func(ctx context.Context, c *client.Client) (any, error) { return c.Agents.Enabled.Get(ctx, "x") },
	"GET /api/v1/agents/manifest": func(ctx context.Context, c *client.Client) (any, error) { return c.Agents.Manifest(ctx) },
	"GET /api/v1/admin/agents":    func(ctx context.Context, c *client.Client) (any, error) { return first(c.Agents.List(ctx, "")) },
	"POST /api/v1/admin/agents": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Agents.Create(ctx, wire.AgentRequest{
			Name: "x", ProviderID: "demo", Model: "demo", Enabled: new(false), AllowedTools: []string{}, MaxTurns: new(3),
			Sandbox: agent.Sandbox{Mode: "required", Network: "none"}, Knowledge: []wire.KnowledgeRef{{Name: "k"}},
			Deployment: agent.Deployment{Memory: "512Mi", CPU: "500m", Processes: 64, Replicas: 2},
			Access:     wire.AgentAccess{Groups: []string{"g"}}, Subagents: map[string]agent.Subagent{"s": {Description: "d", Prompt: "p"}},
		})
	},
	"POST /api/v1/admin/agents/import": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Agents.Import(ctx, "agents: []", true)
	},
	"GET /api/v1/admin/agents/{name}": func(ctx context.Context, c *client.Client) (any, error) { return c.Agents.Get(ctx, "x") },
	"PUT /api/v1/admin/agents/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Agents.Update(ctx, "x", 3, wire.AgentRequest{Name: "x", ProviderID: "demo", Model: "demo"})
	},
	"DELETE /api/v1/admin/agents/{name}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Agents.Delete(ctx, "x") },
	"GET /api/v1/admin/agents/{name}/export": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := c.Agents.Export(ctx, "x")
		return nil, err
	},
	"GET /api/v1/admin/agents/{name}/tools": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Agents.Mounted(ctx, "x", "tools"))
	},
	"PUT /api/v1/admin/agents/{name}/tools": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Agents.Mount(ctx, "x", "tools", 1, nil)
	},
	"GET /api/v1/admin/agents/{name}/skills": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Agents.Mounted(ctx, "x", "skills"))
	},
	"PUT /api/v1/admin/agents/{name}/skills": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Agents.Mount(ctx, "x", "skills", 0, []string{"y"})
	},
	"GET /api/v1/admin/agents/{name}/mcps": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Agents.Mounted(ctx, "x", "mcps"))
	},
	"PUT /api/v1/admin/agents/{name}/mcps": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Agents.Mount(ctx, "x", "mcps", 0, []string{"y"})
	},
	"GET /api/v1/admin/agents/{name}/knowledge": func(ctx context.Context, c *client.Client) (any, error) { return first(c.Agents.Knowledge(ctx, "x")) },
	"PUT /api/v1/admin/agents/{name}/knowledge": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Agents.MountKnowledge(ctx, "x", 0, []wire.KnowledgeRef{{Name: "k", Description: "d"}})
	},
	"GET /api/v1/agents/{name}/detail": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := c.Agents.Detail(ctx, "x")
		return nil, err
	},

	"GET /api/v1/admin/tools":        func(ctx context.Context, c *client.Client) (any, error) { return first(c.Tools.List(ctx, "")) },
	"POST /api/v1/admin/tools":       func(ctx context.Context, c *client.Client) (any, error) { return c.Tools.Create(ctx, fileOf("t.ts")) },
	"GET /api/v1/admin/tools/{name}": func(ctx context.Context, c *client.Client) (any, error) { return c.Tools.Get(ctx, "x") },
	"PUT /api/v1/admin/tools/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Tools.Update(ctx, "x", 1, wire.ToolUpdate{Title: new("t")})
	},
	"DELETE /api/v1/admin/tools/{name}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Tools.Delete(ctx, "x") },
	"PUT /api/v1/admin/tools/{name}/file": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Tools.Replace(ctx, "x", 1, fileOf("t.ts"))
	},
	"GET /api/v1/admin/tools/{name}/download": func(ctx context.Context, c *client.Client) (any, error) { return closed(c.Tools.Download(ctx, "x", 0)) },
	"GET /api/v1/skills":                      func(ctx context.Context, c *client.Client) (any, error) { return first(c.Skills.Ready.List(ctx, "")) },
	"GET /api/v1/skills/{name}":               func(ctx context.Context, c *client.Client) (any, error) { return c.Skills.Ready.Get(ctx, "x") },
	"GET /api/v1/skills/{name}/download":      func(ctx context.Context, c *client.Client) (any, error) { return c.Skills.Link(ctx, "x") },
	"GET /artifacts/skills/{hash}/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return closed(c.Artifact(ctx, base+"/artifacts/skills/"+strings.Repeat("0", 64)+"/x.zip?expires=1&sig=s", 0))
	},
	"GET /api/v1/admin/skills":        func(ctx context.Context, c *client.Client) (any, error) { return first(c.Skills.List(ctx, "")) },
	"POST /api/v1/admin/skills":       func(ctx context.Context, c *client.Client) (any, error) { return c.Skills.Create(ctx, fileOf("s.zip")) },
	"GET /api/v1/admin/skills/{name}": func(ctx context.Context, c *client.Client) (any, error) { return c.Skills.Get(ctx, "x") },
	"PUT /api/v1/admin/skills/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Skills.Update(ctx, "x", 1, wire.SkillUpdate{Type: new("expert")})
	},
	"DELETE /api/v1/admin/skills/{name}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Skills.Delete(ctx, "x") },
	"PUT /api/v1/admin/skills/{name}/file": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Skills.Replace(ctx, "x", 1, fileOf("s.zip"))
	},

	"GET /api/v1/scenes":              func(ctx context.Context, c *client.Client) (any, error) { return first(c.Scenes.Enabled.List(ctx, "")) },
	"GET /api/v1/scenes/{name}":       func(ctx context.Context, c *client.Client) (any, error) { return c.Scenes.Enabled.Get(ctx, "x") },
	"GET /api/v1/admin/scenes":        func(ctx context.Context, c *client.Client) (any, error) { return first(c.Scenes.List(ctx, "")) },
	"GET /api/v1/admin/scenes/{name}": func(ctx context.Context, c *client.Client) (any, error) { return c.Scenes.Get(ctx, "x") },
	"POST /api/v1/admin/scenes": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Scenes.Create(ctx, wire.SceneRequest{Name: "x", AgentName: "y"})
	},
	"PUT /api/v1/admin/scenes/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Scenes.Update(ctx, "x", 1, wire.SceneRequest{Name: "x", AgentName: "y", Order: 2})
	},
	"DELETE /api/v1/admin/scenes/{name}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Scenes.Delete(ctx, "x") },
	"GET /api/v1/admin/mcps":             func(ctx context.Context, c *client.Client) (any, error) { return first(c.MCPs.List(ctx, "")) },
	"GET /api/v1/admin/mcps/{name}":      func(ctx context.Context, c *client.Client) (any, error) { return c.MCPs.Get(ctx, "x") },
	"POST /api/v1/admin/mcps": func(ctx context.Context, c *client.Client) (any, error) {
		return c.MCPs.Create(ctx, wire.MCPRequest{Name: "x", Transport: "stdio", Command: "true", Args: []string{"-v"}, Env: map[string]string{"A": "b"}})
	},
	"PUT /api/v1/admin/mcps/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.MCPs.Update(ctx, "x", 1, wire.MCPRequest{Name: "x", Transport: "http", URL: "https://example.com", OAuth: wire.OAuth{ClientID: "c", ClientSecret: "***"}})
	},
	"DELETE /api/v1/admin/mcps/{name}":      func(ctx context.Context, c *client.Client) (any, error) { return nil, c.MCPs.Delete(ctx, "x") },
	"GET /api/v1/admin/knowledge":           func(ctx context.Context, c *client.Client) (any, error) { return first(c.Knowledge.List(ctx, "")) },
	"GET /api/v1/admin/knowledge/{name}":    func(ctx context.Context, c *client.Client) (any, error) { return c.Knowledge.Get(ctx, "x") },
	"DELETE /api/v1/admin/knowledge/{name}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Knowledge.Delete(ctx, "x") },
	"POST /api/v1/admin/knowledge": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Knowledge.Create(ctx, wire.KnowledgeRequest{Name: "x", DatasetID: "d"})
	},
	"PUT /api/v1/admin/knowledge/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Knowledge.Update(ctx, "x", 1, wire.KnowledgeRequest{Name: "x", DatasetID: "d"})
	},

	"GET /api/v1/providers": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Providers.Visible.List(ctx, ""))
	},
	"GET /api/v1/providers/{id}":           func(ctx context.Context, c *client.Client) (any, error) { return c.Providers.Visible.Get(ctx, "x") },
	"GET /api/v1/providers/runtime-config": func(ctx context.Context, c *client.Client) (any, error) { return first(c.Providers.RuntimeConfig(ctx)) },
	"GET /api/v1/admin/providers":          func(ctx context.Context, c *client.Client) (any, error) { return first(c.Providers.List(ctx, "")) },
	"GET /api/v1/admin/providers/{id}":     func(ctx context.Context, c *client.Client) (any, error) { return c.Providers.Get(ctx, "x") },
	"DELETE /api/v1/admin/providers/{id}":  func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Providers.Delete(ctx, "x") },
	"POST /api/v1/admin/providers": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Providers.Create(ctx, wire.ProviderRequest{Name: "x", Models: []wire.Model{{ID: "m"}}, ProbeRequest: wire.ProbeRequest{
			Protocol: "openai", APIKey: wire.KeyChange{Value: "k"}, Headers: map[string]string{"A": "b"},
		}})
	},
	"PUT /api/v1/admin/providers/{id}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Providers.Update(ctx, "x", 1, wire.ProviderRequest{Name: "x", ProbeRequest: wire.ProbeRequest{Protocol: "anthropic", Body: map[string]any{"a": nil}}})
	},
	"POST /api/v1/admin/providers/probe": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Providers.ProbeConfig(ctx, wire.ProbeRequest{Protocol: "openai", BaseURL: "https://example.com", APIKey: wire.KeyChange{Value: "k"}})
	},
	"POST /api/v1/admin/providers/{id}/probe": func(ctx context.Context, c *client.Client) (any, error) { return c.Providers.Probe(ctx, "x") },
	"PUT /api/v1/admin/providers/{id}/key":    func(ctx context.Context, c *client.Client) (any, error) { return c.Providers.SetKey(ctx, "x", "k") },
	"DELETE /api/v1/admin/providers/{id}/key": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Providers.RemoveKey(ctx, "x")
	},
	"POST /api/v1/admin/providers/{id}/reveal-key": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := c.Providers.RevealKey(ctx, "x")
		return nil, err
	},

	"GET /api/v1/admin/agents/{name}/deploy":             func(ctx context.Context, c *client.Client) (any, error) { return c.Deployments.Get(ctx, "x") },
	"POST /api/v1/admin/agents/{name}/deploy":            func(ctx context.Context, c *client.Client) (any, error) { return c.Deployments.Deploy(ctx, "x", true) },
	"DELETE /api/v1/admin/agents/{name}/deploy":          func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Deployments.Delete(ctx, "x") },
	"POST /api/v1/admin/agents/{name}/deploy/stop":       func(ctx context.Context, c *client.Client) (any, error) { return c.Deployments.Stop(ctx, "x") },
	"POST /api/v1/admin/agents/{name}/deploy/start":      func(ctx context.Context, c *client.Client) (any, error) { return c.Deployments.Start(ctx, "x") },
	"POST /api/v1/admin/agents/{name}/deploy/rotate-key": func(ctx context.Context, c *client.Client) (any, error) { return c.Deployments.RotateKey(ctx, "x") },
	"POST /api/v1/admin/agents/{name}/deploy/rollback":   func(ctx context.Context, c *client.Client) (any, error) { return c.Deployments.Rollback(ctx, "x", 2) },
	"GET /api/v1/admin/agents/{name}/deploy/revisions": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Deployments.Revisions(ctx, "x"))
	},
	"GET /api/v1/admin/agents/{name}/deploy/logs": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := c.Deployments.Logs(ctx, "x", 10)
		return nil, err
	},
	"GET /api/v1/admin/agents/{name}/files": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := c.Deployments.Files(ctx, "x", "dir")
		return nil, err
	},
	"GET /api/v1/admin/agents/{name}/files/content": func(ctx context.Context, c *client.Client) (any, error) {
		return closed(c.Deployments.Open(ctx, "x", "a.txt", 0))
	},

	"GET /api/v1/admin/aigc/config":    func(ctx context.Context, c *client.Client) (any, error) { _, err := c.Labels.Get(ctx); return nil, err },
	"DELETE /api/v1/admin/aigc/config": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Labels.Delete(ctx) },
	"PUT /api/v1/admin/aigc/config": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Labels.Set(ctx, wire.AIGCRequest{AIGCLabeling: wire.AIGCLabeling{Explicit: wire.AIGCExplicit{Mode: "hint"}}, Signing: wire.AIGCSigningRequest{Enabled: true}})
	},
	"POST /api/v1/admin/aigc/config/rotate-key": func(ctx context.Context, c *client.Client) (any, error) { return c.Labels.RotateKey(ctx) },
	"POST /api/v1/admin/aigc/verify": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Labels.Verify(ctx, json.RawMessage(`{"Label":"1"}`))
	},

	"GET /api/v1/agents/{name}/chat/sessions":         func(ctx context.Context, c *client.Client) (any, error) { return first(c.Chats.List(ctx, "x")) },
	"POST /api/v1/agents/{name}/chat/sessions":        func(ctx context.Context, c *client.Client) (any, error) { return c.Chats.Create(ctx, "x", "t") },
	"DELETE /api/v1/agents/{name}/chat/sessions/{id}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Chats.Delete(ctx, "x", uuid) },
	"POST /api/v1/agents/{name}/chat/uploads": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Chats.Upload(ctx, "x", "", []byte("text"))
	},
	"GET /api/v1/agents/{name}/chat/sessions/{id}/uploads/{upload}": func(ctx context.Context, c *client.Client) (any, error) {
		return closed(c.Chats.File(ctx, "x", uuid, "u"))
	},
	"GET /api/v1/admin/chat/sessions/{id}/uploads/{upload}": func(ctx context.Context, c *client.Client) (any, error) {
		return closed(c.History.File(ctx, uuid, "u", "u"))
	},
	"GET /api/v1/agents/{name}/chat/sessions/{id}/messages": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Chats.Messages(ctx, "x", uuid))
	},
	"GET /api/v1/agents/{name}/chat/sessions/{id}/transcript": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Chats.Transcript(ctx, "x", uuid))
	},
	"POST /api/v1/agents/{name}/chat/sessions/{id}/messages": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := first(c.Chats.Send(ctx, "x", uuid, wire.ChatMessageRequest{Message: "m", ClientMessageID: "i"}))
		return nil, err
	},
	"GET /api/v1/agents/{name}/chat/sessions/{id}/messages/{message}/events": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := first(c.Chats.Events(ctx, "x", uuid, uuid))
		return nil, err
	},
	"POST /api/v1/agents/{name}/chat/sessions/{id}/messages/{message}/cancel": func(ctx context.Context, c *client.Client) (any, error) {
		id, err := c.Chats.CancelAnswer(ctx, "x", uuid, uuid)
		return map[string]any{"runId": id, "state": "cancelling"}, err
	},
	"GET /api/v1/admin/chat/sessions/{id}/messages/{message}/events": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := first(c.History.Events(ctx, uuid, "u", uuid))
		return nil, err
	},
	"POST /api/v1/admin/chat/sessions/{id}/messages/{message}/cancel": func(ctx context.Context, c *client.Client) (any, error) {
		id, err := c.History.CancelAnswer(ctx, uuid, "u", uuid)
		return map[string]any{"runId": id, "state": "cancelling"}, err
	},
	"POST /api/v1/agents/{name}/chat/sessions/{id}/cancel": func(ctx context.Context, c *client.Client) (any, error) {
		_, err := c.Chats.Cancel(ctx, "x", uuid)
		return nil, err
	},
	"GET /api/v1/admin/chat/sessions": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.History.List(ctx, client.HistoryFilter{Agent: "x", Source: "hub"}))
	},
	"GET /api/v1/admin/chat/sessions/{id}":    func(ctx context.Context, c *client.Client) (any, error) { return c.History.Get(ctx, uuid, "u") },
	"DELETE /api/v1/admin/chat/sessions/{id}": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.History.Delete(ctx, uuid, "") },
	"GET /api/v1/admin/chat/sessions/{id}/messages": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.History.Messages(ctx, uuid, ""))
	},
	"GET /api/v1/admin/chat/sessions/{id}/transcript": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.History.Transcript(ctx, uuid, ""))
	},
	"GET /api/v1/approvals":      func(ctx context.Context, c *client.Client) (any, error) { return first(c.Approvals.List(ctx)) },
	"GET /api/v1/approvals/{id}": func(ctx context.Context, c *client.Client) (any, error) { return c.Approvals.Get(ctx, uuid) },
	"POST /api/v1/approvals/{id}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Approvals.Answer(ctx, uuid, wire.ApprovalAnswer{Decision: "approve", Input: json.RawMessage("{}")})
	},
	"GET /api/v1/admin/runs":              func(ctx context.Context, c *client.Client) (any, error) { return first(c.History.Runs(ctx)) },
	"POST /api/v1/admin/runs/{id}/cancel": func(ctx context.Context, c *client.Client) (any, error) { return nil, c.History.CancelRun(ctx, uuid) },
	"POST /api/v1/chat/push": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Push(ctx, wire.ChatPushRequest{Sessions: []wire.PushedSession{{ID: "s", Messages: []wire.PushedMessage{{ID: "m", Role: "user", Content: json.RawMessage(`"hi"`)}}}}})
	},

	"GET /api/v1/admin/usage": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Usage.Report(ctx, client.UsageFilter{By: []string{"day", "agent"}}))
	},
	"GET /api/v1/admin/usage/export": func(ctx context.Context, c *client.Client) (any, error) {
		return closed(c.Usage.Export(ctx, client.UsageFilter{From: "2026-01-02"}))
	},
	"GET /api/v1/admin/budgets": func(ctx context.Context, c *client.Client) (any, error) { return first(c.Usage.Budgets(ctx)) },
	"GET /api/v1/admin/budgets/{kind}/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Usage.Budget(ctx, "agent", "x")
	},
	"DELETE /api/v1/admin/budgets/{kind}/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return nil, c.Usage.DeleteBudget(ctx, "user", uuid)
	},
	"PUT /api/v1/admin/budgets/{kind}/{name}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Usage.SetBudget(ctx, "agent", "x", wire.BudgetRequest{Period: "day", Unit: "tokens", Hard: new(5.0)})
	},
	"GET /api/v1/admin/audit-logs": func(ctx context.Context, c *client.Client) (any, error) {
		return first(c.Audit.List(ctx, client.AuditFilter{Category: "user"}))
	},
	"GET /api/v1/admin/audit-logs/export": func(ctx context.Context, c *client.Client) (any, error) {
		return closed(c.Audit.Export(ctx, client.AuditFilter{}, "ndjson", "3"))
	},
	"GET /api/v1/admin/audit-logs/verify": func(ctx context.Context, c *client.Client) (any, error) { return c.Audit.Verify(ctx, "") },
}
