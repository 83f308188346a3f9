package interop_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTeam: the lead of a team invites a colleague, limits what the colleague uses, and reads what
// happened. The values are the link of the invitation and the password of the colleague.
func TestTeam(t *testing.T) {
	if !alone(t) {
		return
	}
	team(t)
	lead := newPerson(t, t.TempDir())
	shell := lead.terminal()
	lead.reads("cmd/agenthost/README.md", "A team", "https://hub.example.com", address)
	lead.signIn(signedIn(t), shell)
	link := regexp.MustCompile(`http://\S+`).FindString(shell.run(lead.next()))
	require.Contains(t, link, "#token=")

	colleague := newPerson(t, t.TempDir())
	colleague.page, lead.page = lead.page[:2], lead.page[2:]
	colleague.know("LINK", `"`+colleague.value(link)+`"`)
	desk := colleague.terminal()
	desk.types(colleague.next() + "\n")
	desk.await("Password: $")
	desk.types(colleague.value(invented) + "\n")
	text, code := desk.await(prompt.String())
	require.Equal(t, "0", code[1], text)
	require.Contains(t, text, "as bob (member)")
	require.Contains(t, desk.run(colleague.next()), "You wrote: Hello!")
	colleague.did(2, 2)

	shell.run(lead.next())
	require.Regexp(t, `bob +\S`, shell.run(lead.next()))
	log := shell.run(lead.next())
	for _, action := range []string{"invite.create", "auth.register", "agent.update_budget"} {
		require.Contains(t, log, action)
	}
	require.Contains(t, shell.run(lead.next()), "ok:       yes")
	lead.did(6, 0)
}

// TestPython: a program in Python that needs only its standard library chats with an agent.
func TestPython(t *testing.T) {
	if !alone(t) {
		return
	}
	team(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	p := newPerson(t, root)
	shell := p.terminal()
	p.reads("cmd/agenthost/README.md", "Scripts and programs", "https://hub.example.com", address)
	p.signIn(signedIn(t), shell)
	shell.run(p.next())
	require.Contains(t, shell.run(p.next()), "You wrote: Hello!")
	p.did(3, 0)
}
