package permission

import "strings"

// ProtectedName reports whether files and directories with a name are protected, at any depth.
// Names that begin with a dot configure programs, which often execute what they find there. The
// exceptions have only patterns and examples.
func ProtectedName(name string) bool {
	switch strings.ToLower(name) {
	case ".", "..", ".gitignore", ".gitattributes", ".dockerignore", ".editorconfig", ".env.example":
		return false
	}

	return strings.HasPrefix(name, ".") || strings.HasPrefix(fold(name), ".")
}
