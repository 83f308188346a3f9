package runtimecmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// help is a template: cobra inserts the flags.
const help = `Serves LLM agents over HTTP.

Usage:
  {{.CommandPath}} [flags]

Flags:
{{.LocalFlags.FlagUsages}}
Settings, as variables and as keys of the configuration file. A flag overrides a variable, and a variable the file. NAME_FILE is
the path of a file with the value, in place of each secret NAME: AGENT_HTTP_API_KEY, AGENT_BUS_URL, ANTHROPIC_API_KEY,
OPENAI_API_KEY and OTEL_EXPORTER_OTLP_HEADERS.

{{settings}}
Relative paths in the file are relative to the file, those of flags and variables to the current directory.

Examples:
  {{.CommandPath}}                                  agents.yaml, or a demo agent
  {{.CommandPath}} --config prod.yaml --check       checks the configuration
  AGENT_HTTP_API_KEY=... {{.CommandPath}} --addr :3000
`

// settings are what the program reads from its flags and the environment, see [daemon.Read]. Keys
// are those of the configuration file, which [agent.Parse] reads.
type settings struct {
	Config       string        `env:"AGENT_CONFIG" flag:"config" help:"configuration file (default agents.yaml if it exists, else a demo agent)"`
	Addr         string        `env:"AGENT_HTTP_ADDR" flag:"addr" envDefault:"127.0.0.1:3000" help:"address to listen on"`
	APIKeys      string        `env:"AGENT_HTTP_API_KEY" key:"auth.apiKey" help:"keys, separated by commas; callers send one of them as x-api-key"`
	KeyFile      string        `env:"AGENT_HTTP_API_KEY_FILE" help:"file with such keys, which is read again when it changes"`
	Hosts        daemon.List   `env:"AGENT_HTTP_ALLOWED_HOSTS" flag:"allowed-hosts" help:"host names of listeners without keys, in addition to addresses and localhost; * is any name"`
	CWD          string        `env:"AGENT_CWD" key:"cwd" flag:"cwd" help:"working directory of the agents (default the current one)"`
	Level        daemon.Level  `env:"AGENT_LOG_LEVEL" flag:"log-level" envDefault:"info" help:"lowest level of the log: debug, info, warn or error"`
	DrainTimeout time.Duration `env:"--drain-timeout" flag:"drain-timeout" envDefault:"20s" help:"time after SIGTERM, SIGINT or SIGHUP until runs are cancelled"`
	MetricsAddr  string        `env:"--metrics-addr" flag:"metrics-addr" help:"address to serve GET /metrics on, for Prometheus and without a key (default off)"`

	AgentHome string `env:"AGENT_HOME" key:"agentHome" help:"folder with skills in the working and the home directory (default .agents)"`
	StateDir  string `env:"AGENT_STATE_DIR" key:"stateDir" help:"directory of sessions, uploads and downloaded skills (default agenthost in the user's state directory)"`
	BusURL    string `env:"AGENT_BUS_URL" key:"bus" secret:"file" help:"NATS server that connects the replicas of this runtime"`

	AnthropicKey string `env:"ANTHROPIC_API_KEY" secret:"file" help:"key of agents that name the protocol and have none"`
	AnthropicURL string `env:"ANTHROPIC_BASE_URL" help:"address of such agents"`
	OpenAIKey    string `env:"OPENAI_API_KEY" secret:"file" help:"key of agents that name the protocol and have none"`
	OpenAIURL    string `env:"OPENAI_BASE_URL" help:"address of such agents"`

	telemetry.Settings

	// Home and state directories of the user.
	Home         string `env:"HOME"`
	UserProfile  string `env:"USERPROFILE"`
	XDGState     string `env:"XDG_STATE_HOME"`
	LocalAppData string `env:"LOCALAPPDATA"`

	*daemon.Origins

	checkOnly bool
	getenv    func(string) string
	drivers   Drivers
	bus       BusConfig // nil without one
}

// read reads the settings. Their faults are those of readFile.
func (s *settings) read(flags *pflag.FlagSet) {
	s.Origins = daemon.Read(s, s.getenv, flags)
	s.Home = cmp.Or(s.Home, s.UserProfile)
	if s.KeyFile != "" {
		s.Secrets = append(s.Secrets, s.KeyFile)
	}
}

// defaultFile is read if no file is named.
const defaultFile = "agents.yaml"

// readFile reads the configuration file and applies the settings. The error has all faults.
func (s *settings) readFile() (*agent.File, error) {
	file, err := s.parseFile()
	if err != nil {
		file = &agent.File{} // to check the settings
	}

	s.readKeys(file)
	s.readBus(file)
	s.workIn(file)
	s.drivers.Check(&s.Settings, &s.MetricsAddr, s.Origins)
	if err := errors.Join(err, s.Err()); err != nil {
		return nil, err
	}

	file.AgentHome = cmp.Or(s.AgentHome, file.AgentHome)
	for i := range file.Agents {
		s.lend(&file.Agents[i].Provider)
	}

	return file, nil
}

func (s *settings) parseFile() (*agent.File, error) {
	path := cmp.Or(s.Config, defaultFile)
	data, err := daemon.ReadFile(path, daemon.MaxConfig)
	if s.Config == "" && errors.Is(err, fs.ErrNotExist) {
		return &agent.File{Agents: []agent.Agent{{
			ID: "demo", Name: "Demo", Description: "Responds without a model: identifies itself and echoes the message.",
			Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
		}}}, nil
	}

	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}

	lookup := func(name string) (string, bool) {
		v := s.getenv(name)
		switch name { // their values may be in files
		case "ANTHROPIC_API_KEY":
			v = s.AnthropicKey
		case "OPENAI_API_KEY":
			v = s.OpenAIKey
		}

		return v, v != ""
	}
	file, err := agent.Parse(path, data, lookup)
	if err != nil {
		// Each error has its own line, so that terminals and editors find file and line.
		return nil, fmt.Errorf("read configuration:\n%w", err)
	}

	if path, err = filepath.Abs(path); err != nil { // paths relative to the file must not become relative to its cwd
		return nil, fmt.Errorf("read configuration: %w", err)
	}

	file.RelativeTo(filepath.Dir(path))
	return file, nil
}

// readKeys sets the API keys of the environment.
func (s *settings) readKeys(file *agent.File) {
	if s.KeyFile != "" {
		if s.APIKeys != "" {
			s.Fault(&s.APIKeys, "AGENT_HTTP_API_KEY and AGENT_HTTP_API_KEY_FILE are both set")
			return
		}

		var err error
		if s.APIKeys, err = agentvalue.ReadKeys(s.KeyFile); err != nil {
			s.Fault(&s.KeyFile, "%v", err)
		}
	}

	if s.APIKeys == "" {
		return
	}

	if err := file.Auth.SetKeys(s.APIKeys); err != nil {
		s.Fault(&s.APIKeys, "%v", err)
	}
}

// workIn sets the working directory.
func (s *settings) workIn(file *agent.File) {
	file.CWD = cmp.Or(s.CWD, file.CWD)
	if file.CWD == "" {
		return
	}

	info, err := os.Stat(file.CWD) // the operator chooses the directory
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", file.CWD)
	}

	if err != nil {
		s.Fault(&s.CWD, "open the working directory: %v", err)
	}
}

// lend sets the key and address of a provider without a key from the environment of its protocol. A
// configured key belongs to the address next to it, and authStyle none needs no key.
func (s *settings) lend(p *agent.Provider) {
	key, url := s.AnthropicKey, s.AnthropicURL
	switch p.Protocol {
	case agent.ProtocolAnthropic:
	case agent.ProtocolOpenAI:
		key, url = s.OpenAIKey, s.OpenAIURL
	default:
		return
	}

	if p.APIKey != "" {
		return
	}

	p.BaseURL = cmp.Or(p.BaseURL, agent.Secret(url))
	if p.AuthStyle != agentvalue.AuthNone {
		p.APIKey = agent.Secret(key)
	}
}
