package interop_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme: the commands of the README lead from nothing to an agent of the reader's own, with no
// value but the password of the account.
func TestReadme(t *testing.T) {
	if !alone(t) {
		return
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(filepath.Join(root, "agenthost")) })
	p := newPerson(t, root)
	p.reads("README.md", "The first five minutes")

	dev := p.terminal()
	dev.types(p.next() + "\n")
	_, link := dev.await(`http://\S+#setup=\w+`)
	dev.await(`The agent demo is running`)
	b := browser(t)
	b.open(link[0])
	b.fill("Password", p.value(invented))
	b.press("Create the account")
	b.press("Start a chat")
	b.chat("Hello!", "You wrote: Hello!")

	shell := p.terminal()
	shell.run(p.next()) // builds
	require.Contains(t, shell.run(p.next()), "You wrote: Hello!")
	shell.run(p.next()) // creates an agent
	require.Contains(t, shell.run(p.next()), "The agent helper is running, revision 1.")
	require.Contains(t, shell.run(p.next()), "You wrote: Hello!")
	require.Contains(t, shell.run(p.next()), "agent.deploy")
	require.Contains(t, shell.run(p.next()), "budgets")
	dev.ends()

	dev.types(p.next() + "\n") // a runtime
	dev.await("curl")
	require.Contains(t, shell.run(p.next()), "event: done")
	dev.ends()
	p.did(10, 1)
}
