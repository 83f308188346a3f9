package runtime

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// openCommandSandbox opens the sandbox of the commands of an agent, which may read the directories
// of its skills.
func (rt *Runtime) openCommandSandbox(def *agent.Agent, skills []skill.Skill) (tool.Sandbox, wire.Sandbox, error) {
	policy := def.Sandbox.In(rt.cfg.CWD)
	for _, s := range skills {
		policy.Read = append(policy.Read, filepath.Dir(s.Location))
	}
	box, state, err := rt.openSandbox(policy, rt.cfg.ChildEnv)
	if rt.cfg.OpenSandbox != nil && policy.Mode != agent.SandboxOff && err == nil && !enforced(policy, state) {
		rt.cfg.Logger.Warn("the commands of an agent are not confined, or only in part", "agent", def.ID, "err", state.Reason)
	}
	return box, state, err
}

// enforced reports whether the system enforces a policy.
func enforced(policy agent.Sandbox, state wire.Sandbox) bool {
	return state.Files && (state.Network || policy.Network == agent.NetworkAll)
}

// openServerSandbox opens the sandbox of a stdio server, or returns nil for another one. The server
// may read the files that its command line and its environment name, and change its own directory.
func (rt *Runtime) openServerSandbox(def *agent.Agent, server *agent.MCPServer) (tool.Sandbox, error) {
	if server.Transport != agent.TransportStdio {
		return nil, nil
	}
	policy := def.Sandbox.Add(server.Sandbox).In(rt.cfg.CWD)
	policy.Read = append(policy.Read, serverFiles(server, rt.cfg.CWD)...)
	switch {
	case filepath.IsAbs(server.CWD):
		policy.Write = append(policy.Write, server.CWD)
	case server.CWD != "":
		policy.Write = append(policy.Write, filepath.Join(rt.cfg.CWD, server.CWD))
	}
	env := slices.Clone(rt.cfg.ChildEnv)
	if path, found := server.Env["PATH"]; found {
		env = append(env, "PATH="+string(path))
	}
	box, _, err := rt.openSandbox(policy, env)
	return box, err
}

// openSandbox opens the sandbox of a policy. It is nil if processes are not confined.
func (rt *Runtime) openSandbox(policy agent.Sandbox, env []string) (box tool.Sandbox, state wire.Sandbox, err error) {
	state.Mode = policy.Mode
	switch {
	case policy.Mode == agent.SandboxOff:
		return nil, state, nil
	case rt.cfg.OpenSandbox == nil:
		state.Reason = "the runtime is configured without OpenSandbox"
	default:
		if box, state, err = rt.cfg.OpenSandbox(policy, env); err != nil {
			state.Reason = "the sandbox cannot be opened: see the log"
			return nil, state, err
		}
	}
	if box != nil {
		rt.sandboxes = append(rt.sandboxes, box)
	}
	if policy.Mode == agent.SandboxRequired && !enforced(policy, state) {
		return nil, state, fmt.Errorf("sandbox.mode is required, and this system cannot enforce the sandbox: %s", state.Reason)
	}
	return box, state, nil
}
