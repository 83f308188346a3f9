package permission

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// protectedNames are the files and directories, at any depth, that decide what git, its hooks, a
// shell or another program executes.
var protectedNames = map[string]bool{
	".git": true, "git~1": true, ".gitconfig": true, ".husky": true,
	"lefthook.yml": true, "lefthook.yaml": true, ".lefthook.yml": true, ".lefthook.yaml": true,
	"lefthook-local.yml": true, "lefthook-local.yaml": true, ".pre-commit-config.yaml": true, ".pre-commit-config.yml": true,
	".bashrc": true, ".bash_profile": true, ".bash_login": true, ".bash_logout": true, ".profile": true, ".bash_aliases": true,
	".zshrc": true, ".zprofile": true, ".zshenv": true, ".zlogin": true, ".zlogout": true,
	".ssh": true, ".envrc": true, ".npmrc": true, ".vimrc": true, ".exrc": true, ".vscode": true, ".idea": true,
	".mcp.json": true, ".gitlab-ci.yml": true,
}

// protectedPairs are protected files and directories whose name needs that of their directory.
var protectedPairs = map[string]bool{".config/git": true, ".github/workflows": true}

// protectedLinks are those in the working directory, which may be links to other files.
var protectedLinks = func() map[string]bool {
	all := maps.Clone(protectedNames)
	maps.Copy(all, protectedPairs)
	return all
}()

// protects returns the outermost file or directory because of which a path of the working directory
// is protected, or "".
func (d *directory) protects(p string) string {
	if outside(p) {
		return ""
	}
	outermost := ""
	found := func(at string) {
		if outermost == "" || len(at) < len(outermost) {
			outermost = at
		}
	}
	before := ""
	for end, name := range prefixes(p) {
		folded := fold(name)
		if protectedNames[folded] || protectedPairs[before+"/"+folded] {
			found(p[:end])
			break
		}
		before = folded
	}
	for _, dir := range slices.Concat(d.protected, d.gitPaths(p)) {
		if at := within(dir, p); at != "" {
			found(at)
		}
		if at := d.leadsTo(dir, p); at != "" {
			found(at)
		}
	}
	if fold(path.Base(p)) == "head" { // it makes its directory a git directory
		found(p)
	}
	for dir := range protectedLinks { // a repository may have .vscode as a link to another directory
		if at := d.leadsTo(dir, p); at != "" {
			found(at)
		}
	}
	if at := d.inGitDirectory(p); at != "" {
		found(at)
	}
	return outermost
}

// prefixes iterates over the names in a path, and where they end.
func prefixes(p string) func(yield func(end int, name string) bool) {
	return func(yield func(int, string) bool) {
		for from := 0; from <= len(p); {
			end := from + strings.IndexByte(p[from:]+"/", '/')
			if !yield(end, p[from:end]) {
				return
			}
			from = end + 1
		}
	}
}

// within returns the part of a path that is a directory or file, or "" if the path is neither that
// nor in it. Names are compared without letter case, as in some file systems.
func within(dir, p string) string {
	switch {
	case dir == ".":
		return dir
	case outside(dir):
		return ""
	}
	left := strings.Count(dir, "/")
	for end := range prefixes(p) {
		if left == 0 && fold(p[:end]) == fold(dir) {
			return p[:end]
		}
		left--
	}
	return ""
}

// gitPaths returns, as target.text, what the configuration of git names in each worktree with the
// file: that of the working directory, and those below it. The files are read for each decision,
// because other programs change them while a runtime serves.
func (d *directory) gitPaths(p string) []string {
	if d.resolve == nil || d.cwd == "" {
		return nil
	}
	var paths []string
	cwd := d.absolute(".")
	for dir := d.absolute(path.Dir(p)); ; dir = filepath.Dir(dir) {
		repository, top := gitDirectory(dir), dir == filepath.Dir(dir)
		if repository != "" || top {
			for _, named := range d.git.paths(dir, repository) {
				paths = append(paths, d.relative(named))
			}
		}
		if top || repository != "" && len(dir) <= len(cwd) { // not below cwd
			return paths
		}
	}
}

// inGitDirectory returns the git directory with a file, if it is not named .git: a bare repository,
// or one made with git init --separate-git-dir. Its config names commands that git runs.
func (d *directory) inGitDirectory(p string) string {
	if d.resolve == nil || d.cwd == "" {
		return ""
	}
	outermost := ""
	for dir := p; dir != "."; {
		dir = path.Dir(dir)
		if _, err := os.Lstat(d.absolute(dir + "/HEAD")); err == nil {
			outermost = dir
		}
		if to := gitFile(d.absolute(dir)); to != "" {
			if at := d.leadsTo(to, p); at != "" {
				outermost = at
			}
		}
	}
	return outermost
}

// leadsTo returns the part of a path that another path leads to, or "".
func (d *directory) leadsTo(dir, p string) string {
	if d.resolve == nil {
		return ""
	}
	resolved, err := d.resolve(dir)
	if err != nil {
		return ""
	}
	return within(path.Clean(resolved), p)
}
