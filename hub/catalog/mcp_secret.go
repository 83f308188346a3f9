package catalog

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Values of environments and headers are sealed one by one, bound to their tenant, server and name,
// so that their names can be listed without the key. They are stored as base64.

func pairPlace(tenantID, id, field, name string) []byte {
	return secret.AAD("mcps", field+"/"+name, id, tenantID)
}

// formerPairPlace is the place of values that earlier versions sealed.
func formerPairPlace(id, field, name string) []byte { return secret.AAD("mcps", field+"/"+name, id) }

// seal replaces the values of v by sealed ones. A value that is Masked or equal to the stored one
// is the stored one.
func (s *Service) seal(tenantID string, v *MCP, stored MCP) error {
	fields := api.Fields{}
	v.Env = s.sealPairs(fields, tenantID, v.ID, "env", v.Env, stored.Env)
	v.Headers = s.sealPairs(fields, tenantID, v.ID, "headers", v.Headers, stored.Headers)
	total := 0
	for _, arg := range v.Args {
		total += len(arg)
	}
	for _, pairs := range []map[string]string{v.Env, v.Headers} {
		for name, sealed := range pairs {
			total += len(name) + base64.StdEncoding.DecodedLen(len(sealed)) - strings.Count(sealed, "=") - secret.Overhead
		}
	}
	if total > maxValues {
		fields.Add("server", fmt.Sprintf("must have at most %d bytes of arguments, environment and headers", maxValues))
	}
	return fields.Err()
}

func (s *Service) sealPairs(fields api.Fields, tenantID, id, field string, pairs, stored map[string]string) map[string]string {
	sealed := make(map[string]string, len(pairs))
	for name, value := range pairs {
		before, ok := stored[name]
		if value == Masked {
			if !ok {
				fields.Add(field+"."+name, "has no stored value that "+Masked+" could stand for")
			}
			sealed[name] = before
			continue
		}
		if ok {
			if plain, err := s.openPair(tenantID, id, field, name, before); err == nil && plain == value {
				sealed[name] = before
				continue
			}
		}
		sealed[name] = base64.StdEncoding.EncodeToString(s.cfg.Keyring.Seal([]byte(value), pairPlace(tenantID, id, field, name)))
	}
	return sealed
}

func (s *Service) openPair(tenantID, id, field, name, sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return "", fmt.Errorf("open %s of MCP server: %w", field, err)
	}
	plain, err := s.cfg.Keyring.Open(raw, pairPlace(tenantID, id, field, name))
	return string(plain), err
}

// server returns the server with its values opened. It fails with api.Conflict if a value cannot be
// opened.
func (s *Service) server(tenantID string, v MCP) (agent.MCPServer, error) {
	server := agent.MCPServer{Transport: v.Transport, Command: v.Command, Args: v.Args, CWD: v.CWD, URL: v.URL, Sandbox: v.Sandbox}
	var err error
	if server.Env, err = s.openPairs(tenantID, v, "env", v.Env); err != nil {
		return agent.MCPServer{}, err
	}
	server.Headers, err = s.openPairs(tenantID, v, "headers", v.Headers)
	return server, err
}

func (s *Service) openPairs(tenantID string, v MCP, field string, pairs map[string]string) (map[string]agent.Secret, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	opened := make(map[string]agent.Secret, len(pairs))
	for name, sealed := range pairs {
		plain, err := s.openPair(tenantID, v.ID, field, name, sealed)
		if err != nil {
			return nil, &api.Error{
				Code: api.Conflict, Cause: err,
				Message: "The value " + field + "." + name + " of MCP server " + v.Name + " cannot be decrypted: set it again.",
			}
		}
		opened[name] = agent.Secret(plain)
	}
	return opened, nil
}

// Rekey seals the environments and headers of MCP servers with the first key of the keyring, and
// returns the number of values that were sealed with another one. Values that cannot be opened are
// logged and unchanged. Hubs may serve the database in the meantime.
func (s *Service) Rekey(ctx context.Context) (int, error) {
	return s.resealAll(ctx, s.cfg.Keyring.Reseal)
}

// Bind binds the values that an earlier version sealed to their tenant, and returns their number.
// No other function opens them. Call it before the service is used.
func (s *Service) Bind(ctx context.Context) (int, error) {
	return s.resealAll(ctx, s.cfg.Keyring.Rebind)
}

type resealFunc func(sealed, aad, former []byte) ([]byte, error)

func (s *Service) resealAll(ctx context.Context, reseal resealFunc) (n int, err error) {
	for after := ""; ; {
		all, err := mcpsAfter(ctx, s.db.Read(), after, 100)
		if err != nil || len(all) == 0 {
			return n, err
		}
		for _, row := range all {
			changed, err := s.resealServer(ctx, row, reseal)
			if err != nil {
				return n, err
			}
			n += changed
		}
		after = all[len(all)-1].ID
	}
}

// resealServer seals the values of one server. If the server is changed in the meantime, it reads
// it again.
func (s *Service) resealServer(ctx context.Context, row tenantMCP, reseal resealFunc) (int, error) {
	for {
		v, n := row.MCP, 0
		v.Env, n = s.resealPairs(ctx, row, "env", row.Env, reseal, n)
		v.Headers, n = s.resealPairs(ctx, row, "headers", row.Headers, reseal, n)
		if n == 0 {
			return 0, nil
		}
		done, err := resealMCP(ctx, s.db.Write(), row, v)
		if done || err != nil {
			return n, err
		}
		row.MCP, err = mcpByName(ctx, s.db.Read(), row.tenantID, row.Name)
		if errors.Is(err, api.NotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

func (s *Service) resealPairs(ctx context.Context, v tenantMCP, field string, pairs map[string]string, reseal resealFunc, n int) (map[string]string, int) {
	fresh := make(map[string]string, len(pairs))
	for name, sealed := range pairs {
		fresh[name] = sealed
		raw, err := base64.StdEncoding.DecodeString(sealed)
		if err == nil {
			raw, err = reseal(raw, pairPlace(v.tenantID, v.ID, field, name), formerPairPlace(v.ID, field, name))
		}
		if err != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a value of an MCP server cannot be opened", slog.String("mcp_server", v.Name), slog.Any("err", err))
			continue
		}
		if raw != nil {
			fresh[name] = base64.StdEncoding.EncodeToString(raw)
			n++
		}
	}
	return fresh, n
}
