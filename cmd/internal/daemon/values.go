package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// parsers parse the values of settings whose types have no UnmarshalText.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[bool](): func(text string) (any, error) {
		value, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q is neither true nor false", text)
		}

		return value, nil
	},
	reflect.TypeFor[int](): func(text string) (any, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q is not a whole number", text)
		}

		return n, nil
	},
	reflect.TypeFor[time.Duration](): func(text string) (any, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q is not a duration such as 90s or 30m", text)
		}

		return d, nil
	},
}

// File is the path of the YAML file of the settings of which it is one.
type File string

// List is a list of texts: in a variable, separated by commas or as a JSON array.
type List []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *List) UnmarshalText(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		if json.Unmarshal(text, (*[]string)(l)) != nil {
			return errors.New("must be a list of texts")
		}

		return nil
	}

	for item := range strings.SplitSeq(string(text), ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}

	return nil
}

// Networks is a list of networks, or of addresses.
type Networks []netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Networks) UnmarshalText(text []byte) error {
	var list List
	if err := list.UnmarshalText(text); err != nil {
		return err
	}

	for _, item := range list {
		network, err := netip.ParsePrefix(item)
		if addr, bare := netip.ParseAddr(item); bare == nil {
			network, err = addr.Prefix(addr.BitLen())
		}

		if err != nil {
			return fmt.Errorf("%.80q is not a network: use a prefix such as 10.0.0.0/8, or an address", item)
		}

		*n = append(*n, network.Masked())
	}

	return nil
}

// URL is a base URL without a slash at its end.
type URL string

// UnmarshalText implements encoding.TextUnmarshaler. Its error does not contain the text, which may
// have a password.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return errors.New("must be a base URL: http:// or https://, a host, and no query")
	}

	*u = URL(strings.TrimRight(string(text), "/"))
	return nil
}

// Memory is a size as the deployment settings of an agent have it.
type Memory string

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Memory) UnmarshalText(text []byte) error {
	*m = Memory(text)
	return quantity(agent.Deployment{Memory: string(text)})
}

// CPU is a share of processors as the deployment settings of an agent have it.
type CPU string

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CPU) UnmarshalText(text []byte) error {
	*c = CPU(text)
	return quantity(agent.Deployment{CPU: string(text)})
}

func quantity(d agent.Deployment) error {
	if faults, ok := errors.AsType[agent.Faults](d.Validate()); ok {
		return errors.New(faults[0].Message)
	}

	return nil
}
