package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/pflag"

	"github.com/seed93082962/agenthost/runtime/agent"
)

const help = `runtime serves LLM agents over HTTP.

Environment (a flag wins over it, and it wins over the configuration file):
  AGENT_CONFIG          configuration file, as --config
  AGENT_HTTP_ADDR       address to listen on, as --addr
  AGENT_HTTP_API_KEY    keys of which callers must send one as x-api-key, separated by commas
  AGENT_CWD             working directory of the agents, as --cwd
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL
  OPENAI_API_KEY, OPENAI_BASE_URL
                        for agents that name the protocol and have no key of their own
`

// settings come from the environment, and then from flags.
type settings struct {
	Config  string `env:"AGENT_CONFIG"`
	Addr    string `env:"AGENT_HTTP_ADDR" envDefault:"127.0.0.1:3000"`
	APIKeys string `env:"AGENT_HTTP_API_KEY"`
	CWD     string `env:"AGENT_CWD"`

	AnthropicKey string `env:"ANTHROPIC_API_KEY"`
	AnthropicURL string `env:"ANTHROPIC_BASE_URL"`
	OpenAIKey    string `env:"OPENAI_API_KEY"`
	OpenAIURL    string `env:"OPENAI_BASE_URL"`

	Check        bool
	DrainTimeout time.Duration
}

func readEnvironment(getenv func(string) string) (*settings, error) {
	s := &settings{}
	names, err := env.GetFieldParams(s)
	if err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	values := map[string]string{}
	for _, name := range names {
		if v := getenv(name.Key); v != "" {
			values[name.Key] = v
		}
	}
	if err := env.ParseWithOptions(s, env.Options{Environment: values}); err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	return s, nil
}

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.Config, "config", s.Config, "configuration `file` (default agents.yaml if it exists, else a demo agent)")
	f.StringVar(&s.Addr, "addr", s.Addr, "`address` to listen on")
	f.StringVar(&s.CWD, "cwd", s.CWD, "working `directory` of the agents (default the current one)")
	f.BoolVar(&s.Check, "check", false, "read the configuration, tell what is wrong with it or how every agent stands, and exit")
	f.DurationVar(&s.DrainTimeout, "drain-timeout", 20*time.Second, "how long runs may go on after SIGTERM before they are cancelled")
}

// defaultFile is read where no other is named.
const defaultFile = "agents.yaml"

// readFile reads the configuration file and puts the environment over it.
func (s *settings) readFile(getenv func(string) string) (*agent.File, error) {
	path := cmp.Or(s.Config, defaultFile)
	data, err := os.ReadFile(path)
	var file *agent.File
	switch {
	case err == nil:
		lookup := func(name string) (string, bool) { v := getenv(name); return v, v != "" }
		if file, err = agent.Parse(path, data, lookup); err != nil {
			return nil, err
		}
		file.RelativeTo(filepath.Dir(path))
	case s.Config == "" && errors.Is(err, fs.ErrNotExist):
		file = &agent.File{Agents: []agent.Agent{{
			ID: "demo", Name: "Demo", Description: "Answers without a model: it says what it is, and what you said.",
			Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
		}}}
	default:
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if s.APIKeys != "" {
		file.Auth.APIKeys = agent.SplitKeys(s.APIKeys)
	}
	file.CWD = cmp.Or(s.CWD, file.CWD)
	for i := range file.Agents {
		s.lend(&file.Agents[i].Provider)
	}
	return file, nil
}

// lend gives a provider without a key the one of the environment.
func (s *settings) lend(p *agent.Provider) {
	key, url := s.AnthropicKey, s.AnthropicURL
	switch p.Protocol {
	case agent.ProtocolAnthropic:
	case agent.ProtocolOpenAI:
		key, url = s.OpenAIKey, s.OpenAIURL
	default:
		return
	}
	if p.APIKey == "" {
		p.APIKey = agent.Secret(key)
		p.BaseURL = cmp.Or(p.BaseURL, agent.Secret(url))
	}
}

// version comes from the build: a release of the module, else the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "devel+" + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return "devel"
}
