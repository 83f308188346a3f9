package catalog

import (
	"context"
	"database/sql"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// manifestOf returns the manifest of agents, with the hashes that hashOf returns.
func manifestOf(agents []Agent, hashOf func(*Agent) string) (wire.Manifest, error) {
	m := wire.Manifest{Agents: []wire.ManifestAgent{}}
	hashes := map[string]string{}
	for i := range agents {
		if a := &agents[i]; a.Enabled {
			hash := hashOf(a)
			m.Agents = append(m.Agents, wire.ManifestAgent{
				Name: a.Name, Title: a.Title, Description: a.Description, Icon: a.Icon, IsDefault: a.IsDefault,
				ContentHash: hash, UpdatedAt: a.UpdatedAt,
			})
			hashes[a.Name] = hash
		}
	}

	var err error
	m.ContentHash, err = digest(hashes)
	return m, err
}

// Agents returns the agents of the tenant by name, including disabled ones. The caller must not
// modify their slices and maps.
func (s *Service) Agents(ctx context.Context, caller api.Caller, page api.Page) (api.List[Agent], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[Agent]{}, err
	}

	sn, err := s.snapshot(ctx, caller.TenantID)
	return sn.page(caller, page, true), err
}

// EnabledAgents returns the enabled agents of the tenant by name. The caller must not modify their
// slices and maps.
func (s *Service) EnabledAgents(ctx context.Context, caller api.Caller, page api.Page) (api.List[Agent], error) {
	sn, err := s.snapshot(ctx, caller.TenantID)
	return sn.page(caller, page, false), err
}

// Agent returns an agent, which may be disabled, or wire.NotFound.
func (s *Service) Agent(ctx context.Context, caller api.Caller, name string) (Agent, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Agent{}, err
	}

	sn, err := s.snapshot(ctx, caller.TenantID)
	if err != nil {
		return Agent{}, err
	}

	return sn.agent(caller, name)
}

// EnabledAgent returns an agent, or wire.NotFound if there is none or it is disabled.
func (s *Service) EnabledAgent(ctx context.Context, caller api.Caller, name string) (Agent, error) {
	sn, err := s.snapshot(ctx, caller.TenantID)
	if err != nil {
		return Agent{}, err
	}

	if a, err := sn.agent(caller, name); err != nil || a.Enabled {
		return a, err
	}

	return Agent{}, errNoAgent
}

// Manifest returns the manifest of the tenant. The caller must not modify it.
func (s *Service) Manifest(ctx context.Context, caller api.Caller) (wire.Manifest, error) {
	sn, err := s.snapshot(ctx, caller.TenantID)
	switch {
	case err != nil:
		return wire.Manifest{}, err
	case rbac.AdminWrite.Check(caller) == nil:
		return sn.manifest, nil
	case !sn.restricted:
		return sn.shown, nil
	}

	return manifestOf(slices.DeleteFunc(slices.Clone(sn.agents), func(a Agent) bool { return !permits(a.Access, caller) }), hashForMembers)
}

func hashForWriters(a *Agent) string { return a.ContentHash }
func hashForMembers(a *Agent) string { return a.shownHash }

// snapshot is the agents of a tenant at one version of its catalog. It is not modified.
type snapshot struct {
	version    int64
	agents     []Agent       // by name
	search     []string      // of the agents
	manifest   wire.Manifest // of all agents
	shown      wire.Manifest // of all agents, for members
	restricted bool          // not everyone has access to all agents
	size       int           // about the number of bytes in memory
}

// agent returns the agent of that name as the caller sees it, or wire.NotFound.
func (sn *snapshot) agent(caller api.Caller, name string) (Agent, error) {
	i, ok := slices.BinarySearchFunc(sn.agents, name, func(a Agent, name string) int { return strings.Compare(a.Name, name) })
	if !ok || !permits(sn.agents[i].Access, caller) {
		return Agent{}, errNoAgent
	}

	return sn.agents[i].shownTo(caller), nil
}

// page returns a page of the agents of the caller that the page's query finds, with or without
// disabled ones.
func (sn *snapshot) page(caller api.Caller, p api.Page, disabled bool) api.List[Agent] {
	query := strings.ToLower(p.Query)
	var list api.List[Agent]
	for i := range sn.agents {
		a := &sn.agents[i]
		if !a.Enabled && !disabled || !permits(a.Access, caller) || !strings.Contains(sn.search[i], query) {
			continue
		}

		if list.Total >= p.Offset() && len(list.Items) < p.Size {
			list.Items = append(list.Items, a.shownTo(caller))
		}

		list.Total++
	}

	return list
}

const (
	maxCached = 128 << 20 // about the bytes of all snapshots; more are dropped, except for the newest
	loaders   = 4         // concurrent loads; those of one tenant wait for each other
)

// snapshots are the newest snapshots of tenants.
type snapshots struct {
	mu       sync.Mutex // guards the fields below
	byTenant map[string]*snapshot
	size     int

	loading [loaders]chan struct{} // has an element while a tenant with that hash is loaded
	seed    maphash.Seed
}

func newSnapshots() *snapshots {
	s := &snapshots{byTenant: map[string]*snapshot{}, seed: maphash.MakeSeed()}
	for i := range s.loading {
		s.loading[i] = make(chan struct{}, 1)
	}

	return s
}

// get returns the snapshot of a tenant if it is at least of that version.
func (s *snapshots) get(tenantID string, version int64) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sn := s.byTenant[tenantID]; sn != nil && sn.version >= version {
		return sn
	}

	return nil
}

// put stores a snapshot unless a newer one is there.
func (s *snapshots) put(tenantID string, sn *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byTenant[tenantID]; old != nil {
		if old.version > sn.version {
			return
		}

		s.size -= old.size
	}

	s.byTenant[tenantID] = sn
	s.size += sn.size
	for id, other := range s.byTenant { // in random order
		if s.size <= maxCached {
			break
		}

		if id != tenantID {
			delete(s.byTenant, id)
			s.size -= other.size
		}
	}
}

// lock waits until no other snapshot of the tenant is being loaded. It returns the function that
// unlocks.
func (s *snapshots) lock(ctx context.Context, tenantID string) (func(), error) {
	slot := s.loading[maphash.String(s.seed, tenantID)%loaders]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// snapshot returns the snapshot of a tenant, with every change that was committed before the call.
// It reads only the version of the tenant if that has not changed. It is empty if there is an
// error.
func (s *Service) snapshot(ctx context.Context, tenantID string) (*snapshot, error) {
	version, err := headVersion(ctx, s.store.Read(), tenantID)
	if err != nil {
		return &snapshot{}, err
	}

	if sn := s.snapshots.get(tenantID, version); sn != nil {
		return sn, nil
	}

	unlock, err := s.snapshots.lock(ctx, tenantID)
	if err != nil {
		return &snapshot{}, err
	}
	defer unlock()
	if sn := s.snapshots.get(tenantID, version); sn != nil {
		return sn, nil
	}

	sn, outdated, err := s.load(ctx, tenantID)
	if err != nil {
		return &snapshot{}, db.Wrap("load catalog", err)
	}

	if len(outdated) > 0 { // otherwise, a read waits for no change
		err = s.store.DB.Tx(ctx, func(tx *sql.Tx) error { return storeDigests(ctx, tx, tenantID, outdated) })
	}

	if err != nil {
		s.store.Logger.WarnContext(ctx, "digests of components are not stored", "tenant", tenantID, "err", err)
	}

	s.snapshots.put(tenantID, sn)
	return sn, nil
}

// load reads the snapshot of a tenant from one state of the database, and the digests that are not
// stored.
func (s *Service) load(ctx context.Context, tenantID string) (*snapshot, []storedDigest, error) {
	sn := &snapshot{}
	var all digests
	var key string
	var outdated []storedDigest
	var err error
	err = s.readTx(ctx, func(tx *sql.Tx) error {
		if sn.version, err = headVersion(ctx, tx, tenantID); err != nil {
			return err
		}

		if sn.agents, err = agentsOf(ctx, tx, tenantID, ""); err != nil {
			return err
		}

		if all, outdated, err = s.readDigests(ctx, tx, tenantID, ""); err != nil {
			return err
		}

		key, err = db.Value[string](ctx, tx, "read hash key", readHashKey, tenantID)
		return err
	})
	if err == nil && key == "" && len(sn.agents) > 0 { // of an earlier version
		err = s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
			key, err = hashKey(ctx, tx, tenantID)
			return err
		})
	}

	if err != nil {
		return nil, nil, err
	}

	// The order of the database depends on its locale.
	slices.SortFunc(sn.agents, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	for i := range sn.agents {
		a := &sn.agents[i]
		if a.ContentHash, err = contentHash(key, *a, all); err != nil {
			return nil, nil, err
		}

		if a.shownHash, err = contentHash(key, a.shown(), all); err != nil {
			return nil, nil, err
		}

		sn.restricted = sn.restricted || !a.Access.Everyone
		sn.search = append(sn.search, searchText(a.Name, a.Title))
		sn.size += agentSize(a)
	}

	if sn.manifest, err = manifestOf(sn.agents, hashForWriters); err != nil {
		return nil, nil, err
	}

	sn.shown, err = manifestOf(sn.agents, hashForMembers)
	return sn, outdated, err
}

// readTx calls do with a transaction that sees one state of the database.
func (s *Service) readTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.store.Read().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return db.Wrap("begin", err)
	}

	defer func() { _ = tx.Rollback() }() // it has only read
	return do(tx)
}

// agentSize returns about the number of bytes of an agent with its bindings in memory.
func agentSize(a *Agent) int {
	const fixed, element = 1 << 10, 48 // of a struct with its short texts, and of an element without its text
	size := fixed + len(a.Title) + len(a.TitleEN) + len(a.Description) + len(a.DescriptionEN) + len(a.Icon) + len(a.Model) + len(a.SystemPrompt) + len(a.OutputSchema)
	lists := func(all ...[]string) {
		for _, list := range all {
			for _, text := range list {
				size += element + len(text)
			}
		}
	}
	lists(a.AllowedTools, a.DisallowedTools, a.SettingSources, a.ExtraUserSkillDirs, a.Access.Users, a.Access.Groups, a.Tools, a.Skills, a.MCPs, a.Sandbox.Read, a.Sandbox.Write, a.Sandbox.Domains)
	for _, ref := range a.Knowledge {
		size += element + len(ref.Name) + len(ref.Description)
	}

	for name, value := range a.CommandEnv {
		size += element + len(name) + len(value)
	}

	for name, sub := range a.Subagents {
		size += fixed + len(name) + len(sub.Prompt) + len(sub.Description) + len(sub.Model)
		lists(sub.Tools, sub.DisallowedTools, sub.MCPServers, sub.Skills)
	}

	return size
}
