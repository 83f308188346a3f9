// Package client is a client of the hub API. It has a method for every route that is not a page of
// a browser: configuration, deployments, chats, users and the audit log.
//
//	c, err := client.New(client.Config{BaseURL: "http://127.0.0.1:8080", Token: token})
//	for agent, err := range c.Agents.List(ctx, "") {
//		if err != nil { ... }
//		fmt.Println(agent.Name, agent.Model)
//	}
//	session, err := c.Chats.Create(ctx, "helper", "")
//	question := wire.ChatMessageRequest{Message: "Hello!"}
//	for event, err := range c.Chats.Send(ctx, "helper", session.ID, question) {
//		if err != nil { ... }
//		if p, ok := event.(*runtimewire.PartialMessage); ok {
//			fmt.Print(p.Partial.Text)
//		}
//	}
//
// A list is a sequence that requests its pages of 100 items when they are reached. An object that
// is created or deleted in the meantime may be missing, or occur twice. Breaking out of the loop
// ends the requests.
//
// An error response is a [*wire.Error] with the code of the hub:
//
//	if errors.Is(err, wire.NotFound) { ... }
//
// Requests with GET are sent up to three times if the hub is away or overloaded. Other requests are
// sent once, because the hub may have made the change before the connection failed.
//
// A hub is not trusted: a JSON response has at most 64 MiB and 1,048,576 values, and an event of a
// chat about 4 MiB. The context of a call bounds its time.
package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// Config configures a [Client].
type Config struct {
	// BaseURL is the URL of the hub, without /api. Required.
	BaseURL string
	// Token is a CLI token, or another token that is not refreshed.
	Token string
	// Credentials are those of a sign-in, in place of Token. They are refreshed.
	Credentials Credentials
	// Renew replaces expired credentials. It calls refresh, or returns credentials that another
	// process has refreshed and stored. Defaults to a call of refresh.
	Renew func(ctx context.Context, old Credentials, refresh func(context.Context, Credentials) (Credentials, error)) (Credentials, error)
	// OpsKey is the key of the operations interface, for TenantClients.
	OpsKey string
	// PushKey is the key of [Client.Push], in place of a token.
	PushKey string
	// UserAgent is sent with each request. The hub lists it with sessions and in the audit log.
	UserAgent string
	// Omitted is called for an element of a list that cannot be decoded, such as one of a later hub.
	// It hides no other element. Defaults to nothing.
	Omitted func(error)
	// HTTPClient defaults to a client without a timeout, because answers of chats may be long: limit
	// calls by their context. Without its own CheckRedirect it does not follow redirects, because
	// the token would be sent to the other address.
	HTTPClient *http.Client
}

// Client calls one hub. It is safe for concurrent use.
type Client struct {
	Auth          Auth          // the caller, with its sign-ins and CLI tokens
	Users         Users         // accounts and invitations, by admins
	Agents        Agents        // configurations of agents
	Tools         Tools         // tools that agents mount
	Skills        Skills        // skills that agents mount
	Scenes        Scenes        // prompts that users are offered
	Providers     Providers     // model providers
	Deployments   Deployments   // runtimes of agents, with their working directories
	Chats         Chats         // the caller's conversations with agents
	Approvals     Approvals     // what waits for the caller
	History       History       // all conversations of the organization, and answers in progress
	Usage         Usage         // tokens and cost, and their limits
	Labels        Labels        // labels of generated content
	Audit         Audit         // the audit log
	TenantClients TenantClients // identity providers of organizations, by operators

	MCPs      Catalog[wire.MCP, wire.MCPRequest]             // MCP servers that agents mount
	Knowledge Catalog[wire.Knowledge, wire.KnowledgeRequest] // knowledge sets that agents mount

	base string
	cfg  Config
	http http.Client

	mu          sync.Mutex // guards credentials
	credentials Credentials
	renewing    chan struct{} // has an element during a renewal
}

// New returns a client. It does not connect.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, errors.New("create hub client: the base URL is not of the form http://host:port")
	case base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		return nil, errors.New("create hub client: the base URL has a user, a query or a fragment")
	}

	c := &Client{base: strings.TrimRight(cfg.BaseURL, "/"), cfg: cfg, credentials: cfg.Credentials, renewing: make(chan struct{}, 1)}
	if cfg.Token != "" {
		c.credentials = Credentials{AccessToken: cfg.Token}
	}

	if cfg.HTTPClient != nil {
		c.http = *cfg.HTTPClient
	} else {
		c.http.Transport = outbound.Transport()
	}

	if c.http.CheckRedirect == nil {
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}

	if c.cfg.Renew == nil {
		c.cfg.Renew = func(ctx context.Context, old Credentials, refresh func(context.Context, Credentials) (Credentials, error)) (Credentials, error) {
			return refresh(ctx, old)
		}
	}

	c.connect()
	return c, nil
}

// connect gives each part its client.
func (c *Client) connect() {
	const admin = "/api/v1/admin/"
	c.Auth = Auth{c}
	c.Users = Users{c}
	c.Agents = Agents{Catalog: newCatalog[wire.Agent, wire.AgentRequest](c, admin+"agents"), Enabled: reader[wire.Agent]{c, "/api/v1/agents"}}
	c.Tools = Tools{newCollection[wire.Tool, wire.ToolUpdate](c, admin+"tools")}
	c.Skills = Skills{collection: newCollection[wire.Skill, wire.SkillUpdate](c, admin+"skills"), Ready: reader[wire.Skill]{c, "/api/v1/skills"}}
	c.Scenes = Scenes{Catalog: newCatalog[wire.Scene, wire.SceneRequest](c, admin+"scenes"), Enabled: reader[wire.Scene]{c, "/api/v1/scenes"}}
	c.MCPs = newCatalog[wire.MCP, wire.MCPRequest](c, admin+"mcps")
	c.Knowledge = newCatalog[wire.Knowledge, wire.KnowledgeRequest](c, admin+"knowledge")
	c.Providers = Providers{Catalog: newCatalog[wire.Provider, wire.ProviderRequest](c, admin+"providers"), Visible: reader[wire.Provider]{c, "/api/v1/providers"}}
	c.Deployments = Deployments{c}
	c.Chats = Chats{c}
	c.Approvals = Approvals{c}
	c.History = History{c}
	c.Usage = Usage{c}
	c.Labels = Labels{c}
	c.Audit = Audit{c}
	c.TenantClients = TenantClients{c}
}

// Health returns the health and the version of the hub.
func (c *Client) Health(ctx context.Context) (wire.Health, error) {
	return decode[wire.Health](ctx, c, openRequest("/health"))
}

// Ready returns an error if the hub cannot serve requests, such as an [*wire.Error] with status
// 503.
func (c *Client) Ready(ctx context.Context) error {
	_, err := decode[struct{}](ctx, c, openRequest("/health/ready"))
	return err
}

// Keys returns the public keys of access tokens, as a JSON Web Key Set.
func (c *Client) Keys(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/.well-known/jwks.json", nil, "application/json")
}

// Document returns the OpenAPI document of the hub.
func (c *Client) Document(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/openapi.yaml", nil, "application/yaml")
}
