package runtimecmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/host"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// help is a template: cobra inserts the flags.
const help = `Serves LLM agents over HTTP.

Usage:
  {{.CommandPath}} [flags]

Flags:
{{.LocalFlags.FlagUsages}}
Environment (a flag overrides it, and it overrides the configuration file):
  AGENT_CONFIG         configuration file, as --config
  AGENT_HTTP_ADDR      address to listen on, as --addr
  AGENT_HTTP_API_KEY   keys, separated by commas; callers send one of them as x-api-key
  AGENT_HTTP_API_KEY_FILE
                       file with such keys, which is read again when it changes
  AGENT_HTTP_ALLOWED_HOSTS
                       host names of listeners without keys, as --allowed-hosts
  AGENT_LOG_LEVEL      lowest level of the log, as --log-level: debug, info (default), warn or error
  AGENT_CWD            working directory of the agents, as --cwd
  AGENT_HOME           folder with skills in the working and the home directory (default .agents)
  AGENT_STATE_DIR      directory of sessions and downloaded skills (default agenthost in the user's state directory)
  AGENT_BUS_URL, AGENT_BUS_URL_FILE
                       NATS server that connects the replicas of this runtime, or the file with its URL
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL
  OPENAI_API_KEY, OPENAI_BASE_URL
                       for agents that name the protocol and have no key
  ANTHROPIC_API_KEY_FILE, OPENAI_API_KEY_FILE
                       file with such a key, in place of it
  OTEL_EXPORTER_OTLP_ENDPOINT
                       URL to which traces are sent with OTLP over HTTP (default off); the README has further
                       variables

Relative paths in the file are relative to the file, those of flags and variables to the current directory.

Examples:
  {{.CommandPath}}                                  agents.yaml, or a demo agent
  {{.CommandPath}} --config prod.yaml --check       checks the configuration
  AGENT_HTTP_API_KEY=... {{.CommandPath}} --addr :3000
`

// settings are set from the environment and then from flags.
type settings struct {
	Config  string       `env:"AGENT_CONFIG"`
	Addr    string       `env:"AGENT_HTTP_ADDR" envDefault:"127.0.0.1:3000"`
	APIKeys string       `env:"AGENT_HTTP_API_KEY"`
	KeyFile string       `env:"AGENT_HTTP_API_KEY_FILE"`
	Hosts   string       `env:"AGENT_HTTP_ALLOWED_HOSTS"`
	CWD     string       `env:"AGENT_CWD"`
	Level   daemon.Level `env:"AGENT_LOG_LEVEL" envDefault:"info"`

	AgentHome string `env:"AGENT_HOME"`
	StateDir  string `env:"AGENT_STATE_DIR"`

	// Home and state directories of the user.
	Home         string `env:"HOME"`
	UserProfile  string `env:"USERPROFILE"`
	XDGState     string `env:"XDG_STATE_HOME"`
	LocalAppData string `env:"LOCALAPPDATA"`

	BusURL string `env:"AGENT_BUS_URL" secret:"file"`

	AnthropicKey string `env:"ANTHROPIC_API_KEY" secret:"file"`
	AnthropicURL string `env:"ANTHROPIC_BASE_URL"`
	OpenAIKey    string `env:"OPENAI_API_KEY" secret:"file"`
	OpenAIURL    string `env:"OPENAI_BASE_URL"`

	telemetry.Settings

	Check        bool
	DrainTimeout time.Duration
	MetricsAddr  string
	childEnv     []string
	secretFiles  []string        // paths
	bus          *natsbus.Config // nil without one
}

func readEnvironment(getenv func(string) string) (*settings, error) {
	s := &settings{}
	var err error
	if s.secretFiles, err = daemon.ReadEnvironment(getenv, s); err != nil {
		return nil, err
	}
	if s.KeyFile != "" {
		s.secretFiles = append(s.secretFiles, s.KeyFile)
	}
	s.Home = cmp.Or(s.Home, s.UserProfile)
	s.childEnv = host.ChildEnv(getenv)
	return s, nil
}

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.Config, "config", s.Config, "configuration `file` (default agents.yaml if it exists, else a demo agent)")
	f.StringVar(&s.Addr, "addr", s.Addr, "`address` to listen on")
	f.StringVar(&s.Hosts, "allowed-hosts", s.Hosts, "host `names` of listeners without keys, by commas, next to localhost; * is any name")
	f.StringVar(&s.CWD, "cwd", s.CWD, "working `directory` of the agents (default the current one)")
	f.Var(&s.Level, "log-level", "lowest `level` of the log: debug, info, warn or error")
	f.BoolVar(&s.Check, "check", false, "print every error in the configuration, or the status of agents and skills, and exit")
	f.StringVar(&s.MetricsAddr, "metrics-addr", "", "`address` to serve GET /metrics on, for Prometheus and without a key (default off)")
	f.DurationVar(&s.DrainTimeout, "drain-timeout", 20*time.Second, "time after SIGTERM, SIGINT or SIGHUP until runs are cancelled")
}

// defaultFile is read if no file is named.
const defaultFile = "agents.yaml"

// readFile reads the configuration file and applies the environment. The error has all faults.
func (s *settings) readFile(getenv func(string) string) (*agent.File, error) {
	file, err := s.parseFile(getenv)
	errs := []error{err}
	if err != nil {
		file = &agent.File{} // to check the environment
	}
	errs = append(errs, s.readKeys(file), s.readBus(file), s.workIn(file), s.Settings.Check())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	file.AgentHome = cmp.Or(s.AgentHome, file.AgentHome)
	for i := range file.Agents {
		s.lend(&file.Agents[i].Provider)
	}
	return file, nil
}

func (s *settings) parseFile(getenv func(string) string) (*agent.File, error) {
	path := cmp.Or(s.Config, defaultFile)
	data, err := os.ReadFile(path)
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
		v := getenv(name)
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
func (s *settings) readKeys(file *agent.File) (err error) {
	if s.KeyFile != "" {
		if s.APIKeys != "" {
			return errors.New("read environment: AGENT_HTTP_API_KEY and AGENT_HTTP_API_KEY_FILE are both set")
		}
		if s.APIKeys, err = host.ReadKeys(s.KeyFile); err != nil {
			return err
		}
	}
	if s.APIKeys != "" {
		if file.Auth.APIKeys, err = host.ParseKeys(s.APIKeys); err != nil {
			return fmt.Errorf("read environment: AGENT_HTTP_API_KEY: %w", err)
		}
	}
	return nil
}

// workIn sets the working directory. An error names the setting that it comes from.
func (s *settings) workIn(file *agent.File) error {
	setting := "cwd in the configuration file"
	if s.CWD != "" {
		file.CWD, setting = s.CWD, "--cwd or AGENT_CWD"
	}
	if file.CWD == "" {
		return nil
	}
	info, err := os.Stat(file.CWD) // the operator chooses the directory
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", file.CWD)
	}
	if err != nil {
		return fmt.Errorf("open the working directory, set by %s: %w", setting, err)
	}
	return nil
}

// allowedHosts returns the host names of listeners without keys.
func (s *settings) allowedHosts() (names []string) {
	for name := range strings.SplitSeq(s.Hosts, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
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
	if p.AuthStyle != agent.AuthNone {
		p.APIKey = agent.Secret(key)
	}
}
