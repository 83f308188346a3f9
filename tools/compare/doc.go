// Package compare has benchmarks of agenthost packages next to their alternatives. It is a separate
// module, so that importers of agenthost do not depend on the alternatives. README.md describes how
// to run it.
package compare
