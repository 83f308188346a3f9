package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// connection is what a program needs to use the agents of a hub as models.
type connection struct {
	Client string   `json:"client"`
	URL    string   `json:"baseUrl"`
	Token  string   `json:"token"`
	Models []string `json:"models"` // the names of agents, the one that is used first
	Text   string   `json:"text"`
}

// Model returns the agent of a text that has one.
func (c connection) Model() string { return c.Models[0] }

// noToken is in place of a token.
const noToken = "CLI_TOKEN" //nolint:gosec // it is none

// connectTexts are the texts of programs, with where they belong as comments of their format.
var connectTexts = []struct{ Client, Text string }{
	{"curl", `curl {{.URL}}/chat/completions \
  -H 'Authorization: Bearer {{.Token}}' -H 'Content-Type: application/json' \
  -d '{"model": "{{.Model}}", "messages": [{"role": "user", "content": "Hello!"}]}'
`},
	{"openai-python", `# pip install openai
from openai import OpenAI

client = OpenAI(base_url="{{.URL}}", api_key="{{.Token}}")
answer = client.chat.completions.create(model="{{.Model}}", messages=[{"role": "user", "content": "Hello!"}])
print(answer.choices[0].message.content)
`},
	{"openai-node", `// npm install openai
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{{.URL}}", apiKey: "{{.Token}}" });
const answer = await client.chat.completions.create({ model: "{{.Model}}", messages: [{ role: "user", content: "Hello!" }] });
console.log(answer.choices[0].message.content);
`},
	{"open-webui", `# environment of Open WebUI
OPENAI_API_BASE_URL={{.URL}}
OPENAI_API_KEY={{.Token}}
`},
	{"librechat", `# librechat.yaml
version: 1.2.1
endpoints:
  custom:
    - name: agenthost
      baseURL: "{{.URL}}"
      apiKey: "{{.Token}}"
      models:
        default: [{{range $i, $m := .Models}}{{if $i}}, {{end}}"{{$m}}"{{end}}]
        fetch: true
`},
	{"continue", `# ~/.continue/config.yaml
name: agenthost
version: 1.0.0
schema: v1
models:
{{- range .Models}}
  - name: "{{.}}"
    provider: openai
    model: "{{.}}"
    apiBase: "{{$.URL}}"
    apiKey: "{{$.Token}}"
{{- end}}
`},
	{"zed", `// settings.json; the key is the environment variable AGENTHOST_API_KEY={{.Token}}
{
  "language_models": {
    "openai_compatible": {
      "agenthost": {
        "api_url": "{{.URL}}",
        "available_models": [
{{- range $i, $m := .Models}}{{if $i}},{{end}}
          {"name": "{{$m}}", "max_tokens": 200000, "capabilities": {"tools": false}}
{{- end}}
        ]
      }
    }
  }
}
`},
}

func connectClients() []string {
	var all []string
	for _, c := range connectTexts {
		all = append(all, c.Client)
	}

	return all
}

func (a *app) connectCommand() *cobra.Command {
	var agent string
	var issue bool
	list := strings.Join(connectClients(), ", ")
	cmd := a.command(action{
		use: "connect CLIENT", short: "Print what a program needs to use the agents as models", args: []string{"CLIENT"},
		long:     "Prints what to paste into a program that speaks the protocol of OpenAI, so that it uses the agents of the hub as models: " + list + ".",
		example:  "  agenthost connect curl\n  agenthost connect open-webui --token",
		complete: func(context.Context, *client.Client) ([]string, error) { return connectClients(), nil },
		run: func(ctx context.Context, c *client.Client, args []string) error {
			i := slices.IndexFunc(connectTexts, func(t struct{ Client, Text string }) bool { return t.Client == args[0] })
			if i < 0 {
				return usage("connect knows no client %q: it has %s", args[0], list)
			}

			_, h, err := a.selected()
			if err != nil {
				return err
			}

			to := connection{Client: args[0], URL: strings.TrimRight(h.URL, "/") + "/openai/v1", Token: noToken}
			if to.Models, err = models(ctx, c, agent); err != nil {
				return err
			}

			if issue {
				token, err := c.Auth.IssueToken(ctx, wire.IssueTokenRequest{Name: args[0]})
				if err != nil {
					return err
				}

				to.Token = token.Token
			}

			return a.printConnection(to, connectTexts[i].Text)
		},
	})
	cmd.Flags().StringVar(&agent, "agent", "", "`name` of the agent that is used (default the default agent)")
	cmd.Flags().BoolVar(&issue, "token", false, "issue a CLI token with the name of the client, in place of "+noToken)
	_ = cmd.RegisterFlagCompletionFunc("agent", a.completeFlag(agentNames))
	return cmd
}

// models returns the names of the agents, that of the wanted one or the default one first.
func models(ctx context.Context, c *client.Client, wanted string) ([]string, error) {
	manifest, err := c.Agents.Manifest(ctx)
	if err != nil {
		return nil, err
	}

	var all []string
	first := 0
	for i, agent := range manifest.Agents {
		all = append(all, agent.Name)
		if agent.Name == wanted || wanted == "" && agent.IsDefault {
			first = i
		}
	}

	if len(all) == 0 || wanted != "" && all[first] != wanted {
		return nil, fmt.Errorf("%w: no enabled agent has the name %q: agenthost agents list lists them", errNotFound, wanted)
	}

	all[0], all[first] = all[first], all[0]
	return all, nil
}

func (a *app) printConnection(to connection, text string) error {
	t, err := template.New("").Parse(text)
	if err != nil {
		return fmt.Errorf("read text: %w", err)
	}

	var out strings.Builder
	if err := t.Execute(&out, to); err != nil {
		return fmt.Errorf("print text: %w", err)
	}

	if to.Text = out.String(); a.format != "table" {
		return a.encode(to)
	}

	_, err = fmt.Fprint(a.stdout, to.Text)
	if to.Token == noToken {
		a.note("%s is a token of agenthost tokens create, or add --token.", noToken)
	}

	return err
}
