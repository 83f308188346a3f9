package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	maxKey = 4096 // bytes

	// minMasked is the shortest key of which a masked form shows characters: with a shorter one,
	// they would be a considerable part of it.
	minMasked = 24
)

// seal sets the sealed columns of a provider whose other columns are set.
func (s *Service) seal(p *row, open agent.Provider) error {
	s.sealKey(p, string(open.APIKey))
	p.sealedSettings = nil
	rest := withoutColumns(open)
	if reflect.ValueOf(rest).IsZero() {
		return nil
	}

	text, err := json.Marshal(rest)
	if err != nil {
		return fmt.Errorf("encode settings of provider: %w", err)
	}

	p.sealedSettings = s.store.Keyring.Seal(text, sealedSettings.Place(p.ID, p.tenantID, p.BaseURL))
	return nil
}

// sealKey sets the sealed key, to none if key is empty.
func (s *Service) sealKey(p *row, key string) {
	p.sealedKey = nil
	if key != "" {
		p.sealedKey = s.store.Keyring.Seal([]byte(key), p.keyPlace())
	}
}

// keyPlace returns the place of the sealed key.
func (p row) keyPlace() []byte {
	if p.Shared {
		return sharedKey.Place(sharedKeyID(p.tenantID, p.ID), p.tenantID)
	}

	return sealedKey.Place(p.ID, p.tenantID, p.BaseURL)
}

// withoutColumns returns the settings that have no column. Of the base URL, that is the query.
func withoutColumns(p agent.Provider) agent.Provider {
	_, query, found := strings.Cut(string(p.BaseURL), "?")
	p.Protocol = ""
	p.AuthStyle = ""
	p.APIKey = ""
	p.BaseURL = ""
	if found {
		p.BaseURL = agent.Secret("?" + query)
	}

	return p
}

// open returns the settings of a provider with its secrets. With an error, it returns those that
// can be opened.
func (s *Service) open(p row) (agent.Provider, error) {
	open := agent.Provider{Protocol: p.Protocol, AuthStyle: p.AuthStyle, BaseURL: agent.Secret(p.BaseURL)}
	var errs [2]error
	if p.sealedSettings != nil {
		text, err := s.store.Keyring.Open(p.sealedSettings, sealedSettings.Place(p.ID, p.tenantID, p.BaseURL))
		if err == nil {
			err = jsonlimit.Unmarshal(text, &open)
			open.Protocol = p.Protocol
			open.AuthStyle = p.AuthStyle
			open.BaseURL = agent.Secret(p.BaseURL) + withoutColumns(open).BaseURL
		}

		errs[0] = err
	}

	if p.sealedKey != nil {
		key, err := s.store.Keyring.Open(p.sealedKey, p.keyPlace())
		open.APIKey, errs[1] = agent.Secret(key), err
	}

	return open, errors.Join(errs[:]...)
}

// usable is open with an error for the user.
func (s *Service) usable(p row) (agent.Provider, error) {
	open, err := s.open(p)
	if err != nil {
		return agent.Provider{}, &wire.Error{
			Code: wire.Conflict, Message: "The stored secrets of provider " + p.Name + " cannot be opened: enter the key again, and headers, query and body.", Cause: err,
		}
	}

	return open, nil
}

// view returns a provider as users see it.
func (s *Service) view(p row) wire.Provider {
	v := p.Provider
	open, err := s.open(p)
	key := string(open.APIKey)
	open.APIKey = ""
	open = settings.Mask(open)
	v.BaseURL = string(open.BaseURL)
	v.APIKeyHeader, v.Headers = open.APIKeyHeader, settings.Plain(open.Headers)
	v.Body, v.StreamUsage = open.Body, open.StreamUsage
	v.HasKey = p.sealedKey != nil
	if v.Models == nil {
		v.Models = []wire.Model{}
	}

	switch {
	case err != nil:
		v.KeyState = KeyUnreadable
	case key != "":
		v.KeyState = KeyReady
		v.MaskedKey = mask(key)
	case p.AuthStyle == agentvalue.AuthNone:
		v.KeyState = KeyNotRequired
	default:
		v.KeyState = KeyMissing
	}

	return v
}

// mask returns the first and the last four characters of a long key, and none of a short one.
func mask(key string) string {
	if len(key) < minMasked {
		return "****"
	}

	return key[:4] + "..." + key[len(key)-4:]
}

// SetKey replaces the key of a provider of the tenant, or the key that the tenant has given to a
// built-in provider. It fails with code.BuiltinReadonly for a built-in provider that needs none.
func (s *Service) SetKey(ctx context.Context, caller api.Caller, id string, in bodies.ProviderKey) (wire.Provider, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.Provider{}, err
	}

	fields := api.Fields{}
	if in.APIKey == "" {
		fields.Add("apiKey", "must not be empty; DELETE removes the key")
	}

	checkKey(fields, in.APIKey)
	if err := fields.Err(); err != nil {
		return wire.Provider{}, err
	}

	return s.replaceKey(ctx, caller, id, in.APIKey)
}

// RemoveKey removes the key that SetKey replaces.
func (s *Service) RemoveKey(ctx context.Context, caller api.Caller, id string) error {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return err
	}

	_, err := s.replaceKey(ctx, caller, id, "")
	return err
}

// replaceKey replaces the key of a provider, or removes it if key is empty.
func (s *Service) replaceKey(ctx context.Context, caller api.Caller, id, key string) (wire.Provider, error) {
	var after row
	err := s.store.Change(ctx, store.Change{Caller: caller}, func(tx *store.Tx) error {
		before, err := lockKey(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}

		if before.Shared && before.AuthStyle == agentvalue.AuthNone {
			return code.BuiltinReadonly.New("The provider " + before.Name + " needs no key.")
		}

		stored, keyErr := s.open(before)
		after = before
		after.tenantID = caller.TenantID
		var detail updateDetail
		switch {
		case key == "" && before.sealedKey != nil:
			detail.APIKey = keyRemoved
		case key == "" || keyErr == nil && key == string(stored.APIKey):
			return tx.Unchanged()
		case before.sealedKey == nil:
			detail.APIKey = keyAdded
		default:
			detail.APIKey = keyReplaced
		}

		s.sealKey(&after, key)
		after.Version++
		after.UpdatedAt = wire.Time{Time: tx.Now}
		tx.Record(actionUpdate.Record(after.event(caller.Event()), detail))
		if after.Shared {
			return writeSharedKey(ctx, tx, after)
		}

		if err := updateProvider(ctx, tx, after); err != nil {
			return err
		}

		return s.cfg.CheckRoom(ctx, tx.Tx, caller.TenantID)
	})
	return s.view(after), err
}

// RevealKey returns the key of a provider. It fails with wire.NotFound if it has none, and with
// wire.Conflict if the key cannot be opened.
func (s *Service) RevealKey(ctx context.Context, caller api.Caller, id string) (bodies.ProviderKey, error) {
	var key string
	err := s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminWrite}, func(tx *store.Tx) error {
		p, err := find(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}

		if p.sealedKey == nil {
			return wire.NotFound.New("The provider has no key.")
		}

		tx.Record(actionRevealKey.Record(p.event(caller.Event()), auditlog.None{}))
		open, err := s.usable(p)
		key = string(open.APIKey)
		return err
	})
	if err != nil {
		return bodies.ProviderKey{}, err
	}

	return bodies.ProviderKey{APIKey: key}, nil
}
