package skill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
)

// Sources of skills. Other sources, such as the reserved "local", have no skills.
const (
	User    = "user"
	Project = "project"
)

// Config sets where skills are. The package reads no directory from the environment or the system.
type Config struct {
	HomeDir string // absolute; "" has no skills
	CWD     string // absolute; "" has no skills

	// AgentHome is the directory below HomeDir and CWD that contains "skills". Defaults to
	// ".agents".
	AgentHome string

	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Scanner finds skills. Agents with the same directories share one scan. It is safe for concurrent
// use.
type Scanner struct {
	cfg   Config
	turn  chan struct{} // guards found; a channel, because waiting ends with a context
	found map[root][]Skill
}

// root is a directory that is scanned.
type root struct{ source, dir string }

// New validates c. It does not scan.
func New(c Config) (*Scanner, error) {
	c.AgentHome = cmp.Or(c.AgentHome, ".agents")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	for _, dir := range []string{c.HomeDir, c.CWD} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("set up skills: directory %q is not absolute", dir)
		}
	}

	if !filepath.IsLocal(c.AgentHome) {
		return nil, fmt.Errorf("set up skills: agent home %q is not a path below another directory", c.AgentHome)
	}

	return &Scanner{cfg: c, turn: make(chan struct{}, 1), found: map[root][]Skill{}}, nil
}

// Scan returns the skills of sources, sorted by name in byte order. Project skills override user
// skills, regardless of the order of sources. extraUserDirs belong to the source [User]. A relative
// one is relative to CWD, an empty one is ignored. archives are absolute directories that are
// always scanned, as user skills after all others.
//
// The only error is the cause of ctx.
func (s *Scanner) Scan(ctx context.Context, sources, extraUserDirs, archives []string) ([]Skill, error) {
	byName := map[string]Skill{}
	for _, r := range s.roots(sources, extraUserDirs, archives) {
		skills, err := s.below(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("scan skills: %w", err)
		}

		for _, skill := range skills {
			if old, ok := byName[skill.Name]; ok && old.Location != skill.Location {
				s.cfg.Logger.DebugContext(ctx, "skill is overridden", "name", old.Name, "path", old.Location, "by", skill.Location)
			}

			byName[skill.Name] = skill
		}
	}

	return slices.SortedFunc(maps.Values(byName), func(a, b Skill) int { return cmp.Compare(a.Name, b.Name) }), nil
}

func (s *Scanner) roots(sources, extraUserDirs, archives []string) []root {
	var list []root
	if slices.Contains(sources, User) {
		if s.cfg.HomeDir != "" {
			list = append(list, root{User, filepath.Join(s.cfg.HomeDir, s.cfg.AgentHome, "skills")})
		}

		for _, dir := range extraUserDirs {
			switch {
			case dir == "": // would be all of CWD
			case filepath.IsAbs(dir):
				list = append(list, root{User, filepath.Clean(dir)})
			case s.cfg.CWD != "":
				list = append(list, root{User, filepath.Join(s.cfg.CWD, dir)})
			}
		}
	}

	for _, dir := range archives {
		list = append(list, root{User, dir})
	}

	if slices.Contains(sources, Project) && s.cfg.CWD != "" {
		list = append(list, root{Project, filepath.Join(s.cfg.CWD, s.cfg.AgentHome, "skills")})
	}

	return list
}

// below returns the skills below a root, from the cache if it was scanned. An interrupted scan is
// not cached.
func (s *Scanner) below(ctx context.Context, r root) ([]Skill, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	if skills, ok := s.found[r]; ok {
		return skills, nil
	}

	w := walk{root: r, log: s.cfg.Logger.With("source", r.source), seen: map[string]bool{}}
	if r.source == Project {
		if err := w.confine(s.cfg.CWD); err != nil {
			w.log.WarnContext(ctx, "project skills are left out", "path", r.dir, "err", err)
			s.found[r] = nil
			return nil, nil
		}

		defer func() { _ = w.guard.Close() }()
	}

	if err := w.run(ctx); err != nil {
		return nil, err
	}

	s.found[r] = unique(ctx, w.skills, w.log)
	return s.found[r], nil
}

// unique sorts skills by location and returns the last one of each name.
func unique(ctx context.Context, skills []Skill, log *slog.Logger) []Skill {
	slices.SortFunc(skills, func(a, b Skill) int { return cmp.Compare(a.Location, b.Location) })
	at := map[string]int{}
	last := skills[:0]
	for _, skill := range skills {
		i, ok := at[skill.Name]
		if !ok {
			at[skill.Name] = len(last)
			last = append(last, skill)
			continue
		}

		level := slog.LevelWarn
		if skill.sum == last[i].sum { // repositories have a copy for each program that reads skills
			level = slog.LevelDebug
		}

		log.Log(ctx, level, "two skills have one name", "name", skill.Name, "unused", last[i].Location, "used", skill.Location)
		last[i] = skill
	}

	return last
}

var (
	errOutside = errors.New("leads outside the project")
	errNoFile  = errors.New("is not a regular file")
)

// fileName is matched in any letter case. This spelling has precedence over others in a directory.
const fileName = "SKILL.md"

// batch is the number of entries of a directory that are in memory at a time.
const batch = 1024
