package daemon

import "runtime/debug"

// Version returns the version of the module, which the go command sets from the tag or the commit.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
