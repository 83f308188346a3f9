package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// component identifies what an agent can be bound to.
type component struct {
	kind kind
	name string
}

// digests are texts that change with the content of a component.
type digests map[component]string

// readDigests returns the digests of all components of a tenant.
func readDigests(ctx context.Context, q db.Querier, tenantID string) (digests, error) {
	all := digests{}
	for k, read := range map[kind]func(context.Context, db.Querier, string) ([][2]string, error){
		kindTool: toolDigests, kindSkill: skillDigests, kindMCP: mcpDigests, kindKnowledge: knowledgeDigests,
	} {
		rows, err := read(ctx, q, tenantID)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			all[component{k, row[0]}] = row[1]
		}
	}
	return all, nil
}

// hash sets the content hash of an agent that is not part of a snapshot.
func (a *Agent) hash(ctx context.Context, q db.Querier, tenantID string) error {
	all, err := readDigests(ctx, q, tenantID)
	if err != nil {
		return err
	}
	a.ContentHash, err = contentHash(*a, all)
	return err
}

// contentHash returns the SHA-256 of what a client sees of an agent and of what the agent runs:
// its fields except id, version and times, and the content of its tools, skills, MCP servers and
// knowledge sets. The values of environments and headers of MCP servers do not count, because a
// hash must not help to guess a secret. The provider counts by its id. The order of names in a list
// does not count.
func contentHash(a Agent, all digests) (string, error) {
	bound := map[string]string{}
	for _, b := range a.bindings() {
		for _, ref := range b.refs {
			bound[string(b.kind)+"/"+ref.Name] = all[component{b.kind, ref.Name}]
		}
	}
	a.ID, a.ContentHash, a.Version, a.CreatedAt, a.UpdatedAt = "", "", 0, api.Time{}, api.Time{}
	a.Tools, a.Skills, a.MCPs = sorted(a.Tools), sorted(a.Skills), sorted(a.MCPs)
	a.AllowedTools, a.DisallowedTools, a.SettingSources = sorted(a.AllowedTools), sorted(a.DisallowedTools), sorted(a.SettingSources)
	a.Knowledge = slices.SortedFunc(slices.Values(a.Knowledge), func(x, y KnowledgeRef) int { return strings.Compare(x.Name, y.Name) })
	return digest(struct {
		Format string
		Agent  Agent
		Bound  map[string]string
	}{"agent 1", a, bound})
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
