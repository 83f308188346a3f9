// Command conformance is the client under test of the public conformance suite of MCP: it connects
// to the server in its last argument, and calls each of its tools.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

func main() {
	if err := run(context.Background(), os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	var given struct {
		ClientID     string       `json:"client_id"`
		ClientSecret agent.Secret `json:"client_secret"`
		ToolCalls    []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}

	connector, err := mcp.New(mcp.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		return err
	}

	def := agent.MCPServer{Transport: agentvalue.TransportHTTP, URL: address}
	if given.ClientSecret != "" {
		issuer, err := issuerOf(ctx, address)
		if err != nil {
			return err
		}

		def.OAuth = agent.OAuth{ClientID: given.ClientID, ClientSecret: given.ClientSecret, Issuer: issuer}
	}

	server, err := connector.Open("test", def, agent.Limits{}, nil)
	if err != nil {
		return err
	}

	defer func() { _ = server.Close() }() // the program ends
	list, err := server.Tools(ctx)
	if err != nil {
		return err
	}

	for _, left := range list.LeftOut {
		fmt.Fprintln(os.Stderr, left)
	}

	for _, t := range list.Tools {
		input := inputOf(t.Spec().InputSchema, list.Tools[0].Spec().InputSchema)
		for _, c := range given.ToolCalls {
			if strings.HasSuffix(t.Spec().Name, "__"+c.Name) {
				input = c.Arguments
			}
		}

		result, err := t.Call(ctx, tool.Call{ID: "t1", Input: input})
		if err != nil {
			return err
		}

		fmt.Fprintln(os.Stderr, t.Spec().Name, result.IsError, result.Output)
	}

	return nil
}

// issuerOf returns the authorization server of a server, which an operator would configure.
func issuerOf(ctx context.Context, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}

	u.Path = "/.well-known/oauth-protected-resource" + u.Path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var resource struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&resource); err != nil || len(resource.Servers) == 0 {
		return "", fmt.Errorf("the server names no authorization server: %w", err)
	}

	return resource.Servers[0], nil
}

// inputOf returns an input with a value for each number and text of a schema. A property with the
// name schema is that of the first tool, which the server compares with its own.
func inputOf(schema, first json.RawMessage) json.RawMessage {
	var s struct {
		Properties map[string]struct{ Type string }
	}
	_ = json.Unmarshal(schema, &s) // a schema without properties has an empty input
	input := map[string]any{}
	for name, p := range s.Properties {
		switch p.Type {
		case "number", "integer":
			input[name] = 2
		case "string":
			input[name] = "text"
		}

		if name == "schema" {
			input[name] = first
		}
	}

	data, _ := json.Marshal(input) //nolint:errcheck // numbers and texts
	return data
}
