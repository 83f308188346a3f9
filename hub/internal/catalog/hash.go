package catalog

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
)

// bound identifies what an agent can be bound to.
type bound struct {
	kind componentKind
	name string
}

// digests are texts that change with the content of a component.
type digests map[bound]string

// hash sets the content hash of an agent that is not part of a snapshot, for callers who see all of
// it. It reads only what the agent is bound to.
func (a *Agent) hash(ctx context.Context, s *Service, tx *store.Tx) error {
	all, outdated, err := s.readDigests(ctx, tx, tx.Caller.TenantID, a.ID)
	if err != nil {
		return err
	}

	if err := storeDigests(ctx, tx, tx.Caller.TenantID, outdated); err != nil {
		return err
	}

	key, err := hashKey(ctx, tx, tx.Caller.TenantID)
	if err != nil {
		return err
	}

	a.ContentHash, err = contentHash(key, *a, all)
	return err
}

// digest returns the digest of a component, with the version of its row.
func (c *Components[T, In]) digest(v T) (string, error) {
	content, err := c.content(v)
	if err != nil {
		return "", err
	}

	text, err := digest(content)
	return strconv.FormatInt(c.common(&v).Version, 10) + " " + text, err
}

// contentHash returns the HMAC-SHA-256 of what a client sees of an agent and of what the agent
// runs: its fields except id, version and times, and the content of its tools, skills, MCP servers
// and knowledge sets. The values of environments and headers of MCP servers do not count, because a
// hash must not help to guess a secret. The provider counts by its id. The order of names in a list
// does not count.
func contentHash(key string, a Agent, all digests) (string, error) {
	used := map[string]string{}
	for _, b := range bindings {
		for _, ref := range b.refs(&a) {
			used[string(b.kind)+"/"+ref.Name] = all[bound{b.kind, ref.Name}]
		}
	}

	a.ID = ""
	a.ContentHash = ""
	a.Version = 0
	a.CreatedAt = wire.Time{}
	a.UpdatedAt = wire.Time{}
	if a.Approvers == ApproversOwner { // as in a hash of an earlier version
		a.Approvers = ""
	}

	a.Tools, a.Skills, a.MCPs = sorted(a.Tools), sorted(a.Skills), sorted(a.MCPs)
	a.AllowedTools, a.DisallowedTools, a.SettingSources = sorted(a.AllowedTools), sorted(a.DisallowedTools), sorted(a.SettingSources)
	a.Sandbox.Read, a.Sandbox.Write, a.Sandbox.Domains = sorted(a.Sandbox.Read), sorted(a.Sandbox.Write), sorted(a.Sandbox.Domains)
	a.Knowledge = slices.SortedFunc(slices.Values(a.Knowledge), func(x, y wire.KnowledgeRef) int { return strings.Compare(x.Name, y.Name) })
	text, err := json.Marshal(struct {
		Format string
		Agent  Agent
		Bound  map[string]string
	}{"agent 1", a, used})
	if err != nil {
		return "", fmt.Errorf("hash content: %w", err)
	}

	sum := hmac.New(sha256.New, []byte(key))
	_, _ = sum.Write(text) // has no error
	return hashPrefix + hex.EncodeToString(sum.Sum(nil)), nil
}

// sorted returns a sorted copy. It keeps the difference between nil and empty.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// digest returns the SHA-256 of the JSON of v, which is the same for equal values: fields have a
// fixed order, and the keys of maps are sorted.
func digest(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("hash content: %w", err)
	}

	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
