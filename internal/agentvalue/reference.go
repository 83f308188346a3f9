package agentvalue

import "strings"

// OwnVariable begins a reference to a variable of the env of an MCP server, such as ${env:TOKEN}.
// Its command, args and cwd have such references in place of secrets, which the hub seals in env.
const OwnVariable = "env:"

// Reference returns the reference to a variable.
func Reference(name string) string { return "${" + OwnVariable + name + "}" }

// References returns the names of the variables that a text refers to.
func References(text string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(text, "${"+OwnVariable)
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return names
		}

		names = append(names, name)
		text = after
	}
}

// Resolve returns a text with the values of the variables that it refers to. A reference to another
// variable remains.
func Resolve[T ~string](text string, env map[string]T) string {
	pairs := []string{}
	for _, name := range References(text) {
		if value, ok := env[name]; ok {
			pairs = append(pairs, Reference(name), string(value))
		}
	}

	return strings.NewReplacer(pairs...).Replace(text)
}
