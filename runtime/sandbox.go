package runtime

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// openCommandSandbox opens the sandbox of the commands of an agent, which may read the directories
// of its skills.
func (rt *Runtime) openCommandSandbox(def *agent.Agent, skills []skill.Skill) (tool.Confiner, wire.SandboxStatus, error) {
	policy := def.Sandbox.In(rt.cfg.CWD)
	for _, s := range skills {
		policy.Read = append(policy.Read, filepath.Dir(s.Location))
	}

	box, state, err := rt.openSandbox(policy, rt.commandEnv(def))
	if rt.cfg.OpenSandbox != nil && policy.Mode != agentvalue.SandboxOff && err == nil && !enforced(policy, state) {
		rt.cfg.Logger.Warn("the commands of an agent are not confined, or only in part", "agent", def.ID, "err", state.Reason)
	}

	return box, state, err
}

// commandEnv returns the environment of the commands of an agent, each name once.
func (rt *Runtime) commandEnv(def *agent.Agent) []string {
	env := slices.DeleteFunc(slices.Clone(rt.cfg.ChildEnv), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		_, replaced := def.CommandEnv[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(def.CommandEnv)) {
		env = append(env, name+"="+string(def.CommandEnv[name]))
	}

	return env
}

// enforced reports whether the system enforces a policy, with namespaces.
func enforced(policy agent.Sandbox, state wire.SandboxStatus) bool {
	return state.Mode != runvalue.SandboxPartial && state.Files && (state.Network || policy.Network == agentvalue.NetworkAll)
}

// openServerSandbox opens the sandbox of a stdio server, or returns nil for another one. The server
// may read the files that its command line and its environment name, and change its own directory.
func (rt *Runtime) openServerSandbox(def *agent.Agent, server *agent.MCPServer) (tool.Confiner, error) {
	if server.Transport != agentvalue.TransportStdio {
		return nil, nil
	}

	policy := def.Sandbox.Add(server.Sandbox).In(rt.cfg.CWD)
	policy.Read = append(policy.Read, serverFiles(server, rt.cfg.CWD)...)
	switch own := agentvalue.Resolve(server.CWD, server.Env); {
	case filepath.IsAbs(own):
		policy.Write = append(policy.Write, own)
	case own != "":
		policy.Write = append(policy.Write, filepath.Join(rt.cfg.CWD, own))
	}

	env := slices.Clone(rt.cfg.ChildEnv)
	if path, found := server.Env["PATH"]; found {
		env = append(env, "PATH="+string(path))
	}

	box, _, err := rt.openSandbox(policy, env)
	return box, err
}

// openSandbox opens the sandbox of a policy. It is nil if processes are not confined.
func (rt *Runtime) openSandbox(policy agent.Sandbox, env []string) (tool.Confiner, wire.SandboxStatus, error) {
	var state wire.SandboxStatus
	state.Mode = policy.Mode
	var box tool.Confiner
	var err error
	switch {
	case policy.Mode == agentvalue.SandboxOff:
		return nil, state, nil
	case rt.cfg.OpenSandbox == nil:
		state.Reason = "the runtime is configured without OpenSandbox"
	default:
		if box, state, err = rt.cfg.OpenSandbox(policy, append(slices.Clone(rt.protected), filepath.Join(rt.cfg.CWD, rt.cfg.AgentHome)), env); err != nil {
			state.Reason = "the sandbox cannot be opened: see the log"
			return nil, state, err
		}
	}

	if box != nil {
		rt.sandboxes = append(rt.sandboxes, box)
	}

	if policy.Mode == agentvalue.SandboxRequired && !enforced(policy, state) {
		return nil, state, agentvalue.Unusable("sandbox.mode is required, and this system cannot enforce the sandbox: " + state.Reason)
	}

	return box, state, nil
}

// protectedPaths returns the files and directories that determine what the runtime executes or
// sends to a model: the configured ones, those that the agents name, and the directories of
// programs. Only a pattern that names them approves a write to them, even if only another agent
// names them.
func protectedPaths(cfg *Config) []string {
	var paths []string
	add := func(path string) {
		if path == "" {
			return
		}

		if abs, err := filepath.Abs(path); err == nil {
			paths = append(paths, abs)
		}
	}
	for _, path := range cfg.ProtectedPaths {
		add(path)
	}

	for _, dir := range programDirs(cfg) {
		add(dir)
	}

	for i := range cfg.Agents {
		def := &cfg.Agents[i]
		add(def.SystemPromptFile)
		for _, dir := range def.ExtraUserSkillDirs {
			if dir != "" && !filepath.IsAbs(dir) { // as the scan reads it
				dir = filepath.Join(cfg.CWD, dir)
			}

			add(dir)
		}

		for _, custom := range def.CustomTools {
			add(custom.Path)
		}

		for _, server := range def.MCPServers {
			for _, file := range serverFiles(&server, cfg.CWD) {
				add(file)
			}
		}
	}

	return paths
}

// programDirs returns the directories in the PATH of child processes. They can be below cwd, for
// example if cwd is a home directory. The cwd itself is omitted, because agents write to it.
func programDirs(cfg *Config) []string {
	var dirs []string
	for _, variable := range cfg.ChildEnv {
		path, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}

		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(cfg.CWD, dir)
			}

			if filepath.Clean(dir) != filepath.Clean(cfg.CWD) {
				dirs = append(dirs, dir)
			}
		}
	}

	return dirs
}

// serverFiles returns the files that the command line and the environment of an MCP server name.
// Relative names are those of the server's cwd. A file need not exist: a server that did not start
// is started again. Without an extension, a missing file may be a directory or not a path at all,
// and is left out.
func serverFiles(server *agent.MCPServer, cwd string) []string {
	var files []string
	if own := agentvalue.Resolve(server.CWD, server.Env); filepath.IsAbs(own) {
		cwd = own
	} else {
		cwd = filepath.Join(cwd, own)
	}

	for _, text := range textsOf(server) {
		for _, name := range pathsIn(text) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(cwd, name)
			}

			switch info, err := os.Stat(name); {
			case err == nil && info.Mode().IsRegular(), err != nil && filepath.Ext(name) != "":
				files = append(files, name)
			}
		}
	}

	return files
}

// textsOf returns the texts of the command line and the environment of an MCP server.
func textsOf(server *agent.MCPServer) []string {
	texts := []string{agentvalue.Resolve(server.Command, server.Env)}
	for _, arg := range server.Args {
		texts = append(texts, agentvalue.Resolve(arg, server.Env))
	}

	for _, value := range server.Env {
		texts = append(texts, string(value))
	}

	return texts
}

// pathsIn returns the paths that an argument or a variable may contain. It may be a list, as in
// --require=a.js, "-r a.js" and a.js:b.js.
func pathsIn(text string) []string {
	return append(strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" =:,;", c) }), text)
}

// editablePath returns a path in the working directory that a stdio server uses, if the agent edits
// files without asking: the server's cwd, or a path of its command line or environment. It returns
// "" if there is none. An interpreter executes more than the named files, which are all that the
// runtime protects.
func editablePath(def *agent.Agent, server *agent.MCPServer, cwd string) string {
	modes := []permission.Mode{permission.ModeAcceptEdits, permission.ModeAuto, permission.ModeBypass}
	edits := slices.Contains(modes, permissionMode(def)) || slices.ContainsFunc(def.AllowedTools, func(entry string) bool {
		tool, _, _ := strings.Cut(entry, "(")
		return tool == "Edit" || tool == "Write"
	})
	if server.Transport != agentvalue.TransportStdio || !edits {
		return ""
	}

	var paths []string
	for _, text := range textsOf(server) {
		paths = append(paths, pathsIn(text)...)
	}

	own := agentvalue.Resolve(server.CWD, server.Env)
	if own != "" && !filepath.IsAbs(own) {
		paths = append(paths, filepath.Join(cwd, own))
	}

	paths = append(paths, own)
	real := func(path string) string {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}

		return path
	}
	for _, path := range paths {
		rel, err := filepath.Rel(real(cwd), real(path))
		if filepath.IsAbs(path) && err == nil && filepath.IsLocal(rel) {
			return path
		}
	}

	return ""
}
