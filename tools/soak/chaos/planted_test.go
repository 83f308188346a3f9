package chaos_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
)

// A comparison that finds nothing proves something only if it finds what is wrong. Everything that
// is damaged here was acknowledged.
func TestTheCheckerFindsPlantedLosses(t *testing.T) {
	in := newInstallation(t, 1, true)
	c := in.setUp(t)
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	load(ctx, c).Wait()
	k := &checker{in: in, c: c}
	require.Empty(t, k.check(t.Context()))

	db, err := pgx.Connect(t.Context(), in.database)
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	damage := func(statement string, args ...any) {
		t.Helper()
		tag, err := db.Exec(t.Context(), statement, args...)
		require.NoError(t, err)
		require.Positive(t, tag.RowsAffected(), statement)
	}
	answered := func(from int) *chat {
		for _, chat := range c.chats[from:] {
			if len(chat.questions) > 1 && chat.questions[1].status == "completed" {
				return chat
			}
		}
		require.FailNow(t, "no chat has two answers")
		return nil
	}
	lost, swapped, other := c.chats[0], c.chats[1], answered(2)
	const key = `(SELECT key FROM chat_sessions WHERE id = $1)`
	damage(`DELETE FROM chat_messages WHERE seq = 1 AND session_key = `+key, lost.id)
	damage(`UPDATE chat_messages SET text = 'the answer of ' || $2, content = '' WHERE seq = 2 AND session_key = `+key, swapped.id, other.name)
	damage(`UPDATE chat_messages SET status = 'failed' WHERE seq = 4 AND session_key = `+key, other.id)
	damage(`DELETE FROM scenes WHERE name = $1`, c.scenes[0].name)
	damage(`UPDATE audit_entries SET target_name = 'another' WHERE target_name = $1`, c.scenes[1].name)
	damage(`DELETE FROM chat_sessions WHERE id = $1`, c.pushes[0].name)
	damage(`UPDATE usage_days SET input_tokens = 0 WHERE slice = 'agent' AND agent_name = $1`, payingAgent)
	damage(`UPDATE usage_weeks SET input_tokens = 0 WHERE slice = 'agent' AND agent_name = $1`, payingAgent)
	missing, doubled := c.users[1].user, c.users[2].user
	for _, table := range []string{"usage_days", "usage_weeks"} {
		damage(`UPDATE `+table+` SET runs = runs - 1 WHERE slice <> 'agent' AND user_id = $1`, missing)
		damage(`UPDATE `+table+` SET input_tokens = input_tokens + 100 WHERE slice <> 'agent' AND user_id = $1`, doubled)
		damage(`UPDATE ` + table + ` SET runs = runs + 1, output_tokens = output_tokens + 10 WHERE slice = 'agent'`)
	}
	require.NoError(t, filepath.WalkDir(in.files, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return os.WriteFile(path, []byte("damaged"), 0o600)
	}))
	// The shell reads the script of this name, and waits.
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, agentvalue.DeployedArg), []byte("read -r line\n"), 0o600))
	orphan := &exec.Cmd{Path: "/bin/sh", Args: []string{in.program, agentvalue.DeployedArg}, Dir: dir}
	input, err := orphan.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, orphan.Start())
	defer func() { _ = orphan.Wait() }() // read ends with an error
	defer input.Close()

	findings := k.check(t.Context())
	for _, want := range []string{
		lost.name + ": the acknowledged question 0 is missing",
		swapped.name + `: answer 0 is completed and not the one to its question: "the answer of ` + other.name + `"`,
		other.name + ": answer 1 was acknowledged as completed and is failed",
		"the acknowledged scene " + c.scenes[0].name + " is missing",
		"the scene " + c.scenes[0].name + " exists: false, and has 1 entries in the audit log",
		"the scene " + c.scenes[1].name + " exists: true, and has 0 entries in the audit log",
		"the hash chain of the audit log does not verify",
	} {
		require.Contains(t, findings, want)
	}
	all := strings.Join(findings, "\n")
	require.Regexp(t, "the acknowledged push "+c.pushes[0].name+": denied: .* 404", all)
	require.Regexp(t, "the file of the .*tool "+c.tools[0].name, all)
	require.Regexp(t, "the usage by agent,user of {agent:helper user:"+missing+"} is {Runs:", all)
	require.Regexp(t, "the usage by agent,user of {agent:helper user:"+doubled+"} is {Runs:", all)
	require.Regexp(t, "the usage by agent of {agent:helper user:} is {Runs:", all)
	require.Regexp(t, "the reports of usage differ", all)
	require.Regexp(t, `the upstreams bill \d+ runs with \d+ tokens, and the hub has counted`, all)
	require.Regexp(t, `the runtimes \[\d+ \d+ \d+\] exist, and 2 are deployed`, all)
}
