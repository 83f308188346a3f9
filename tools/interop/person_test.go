package interop_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
)

// invented is the password of every account.
const invented = "correct horse battery"

// tick is the time between two looks.
const tick = 50 * time.Millisecond

// programsVariable is set in a test that is alone on its machine: the directory of the program
// agenthost.
const programsVariable = "INTEROP_PROGRAMS"

var buildAgenthost = sync.OnceValues(func() (string, error) { return build("agenthost", "./cmd/agenthost") })

// alone reports whether the test has a network and processes of its own, so that it can use the
// ports of the documents and nothing outlives it. Otherwise, it runs the test there.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(programsVariable) != "" {
		out, err := exec.Command("sh", "-ec", "mount --make-rprivate /; mount -t proc proc /proc; ip link set lo up").CombinedOutput()
		require.NoError(t, err, "%s", out)
		return true
	}
	program, err := buildAgenthost()
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), programsVariable+"="+filepath.Dir(program))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return false
}

// person has the documents, a shell and a browser, and counts what the documents make a person do.
type person struct {
	t        *testing.T
	dir      string   // in which the shells start
	home     string   // of what programs store for a user
	page     []string // the commands of the section that the person reads
	commands int      // typed
	values   int      // copied from an output or invented: a key, a token, an id, a password
	replaced *strings.Replacer
}

func newPerson(t *testing.T, dir string) *person {
	t.Helper()
	return &person{t: t, dir: dir, home: t.TempDir(), replaced: strings.NewReplacer()}
}

var comment = regexp.MustCompile(`\s+# .*`)

// reads opens a document of the repository at a section. The person types the commands of its
// blocks, one after the other, with what the person knows in place of the names of the document,
// such as the address of the hub.
func (p *person) reads(document, section string, known ...string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", document))
	require.NoError(p.t, err)
	_, body, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(p.t, found, "%s has no section %s", document, section)
	body, _, _ = strings.Cut(body, "\n## ")
	for _, block := range strings.Split(body, "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
			if line = strings.TrimSpace(comment.ReplaceAllString(line, "")); line != "" {
				p.page = append(p.page, line)
			}
		}
	}
	p.know(known...)
}

// know replaces names of the document with those of the person.
func (p *person) know(known ...string) { p.replaced = strings.NewReplacer(known...) }

// next returns the next command of the document.
func (p *person) next() string {
	p.t.Helper()
	require.NotEmpty(p.t, p.page, "the document has no further command")
	command := p.page[0]
	p.page = p.page[1:]
	return p.typed(p.replaced.Replace(command))
}

// typed counts a command.
func (p *person) typed(command string) string {
	p.commands++
	return command
}

// value counts a value that the person copies or invents.
func (p *person) value(text string) string {
	p.values++
	return text
}

// did requires that the person has typed everything, and no more than that.
func (p *person) did(commands, values int) {
	p.t.Helper()
	require.Empty(p.t, p.page, "commands that were not typed")
	require.Equal(p.t, []int{commands, values}, []int{p.commands, p.values}, "commands and values")
}

// terminal is a shell at a pseudo terminal, which the program script of Debian opens.
type terminal struct {
	t     *testing.T
	keys  io.Writer
	shown logtest.Buffer
	read  int // how much of it was awaited
}

// prompt has the exit code of the last command.
var prompt = regexp.MustCompile(`\[(\d+)\]\$ $`)

func (p *person) terminal(env ...string) *terminal {
	p.t.Helper()
	cmd := exec.Command("script", "--quiet", "--flush", "--command", "exec bash --norc --noprofile --noediting -i", "/dev/null")
	cmd.Dir = p.dir
	secrets := []string{"ANTHROPIC_API_KEY=", "OPENAI_API_KEY="} // of the machine of the tests
	cmd.Env = slices.Concat(os.Environ(), secrets, []string{
		`PROMPT_COMMAND=PS1="[$?]\$ "`, "GOWORK=", "TERM=xterm", "XDG_STATE_HOME=" + p.home, "AGENTHOST_CONFIG=" + p.home,
		"BROWSER=" + p.clicks(), "PATH=" + os.Getenv(programsVariable) + ":" + os.Getenv("PATH") + ":/usr/sbin",
	}, env)
	keys, err := cmd.StdinPipe()
	require.NoError(p.t, err)
	term := &terminal{t: p.t, keys: keys}
	cmd.Stdout, cmd.Stderr = &term.shown, &term.shown
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(p.t, cmd.Start())
	p.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Log(term.shown.String())
		}
	})
	term.await(prompt.String())
	return term
}

// types types a line, or keys.
func (term *terminal) types(keys string) {
	term.t.Helper()
	_, err := io.WriteString(term.keys, keys)
	require.NoError(term.t, err)
}

// await waits until the terminal shows what matches the pattern after what was awaited before, and
// returns the text up to its end, and the match.
func (term *terminal) await(pattern string) (string, []string) {
	term.t.Helper()
	expression := regexp.MustCompile(pattern)
	late := time.NewTimer(2 * patience)
	defer late.Stop()
	for {
		text, wrote := term.shown.Now()
		text = text[term.read:]
		if found := expression.FindStringSubmatchIndex(text); found != nil {
			term.read += found[1]
			return text[:found[1]], expression.FindStringSubmatch(text)
		}
		select {
		case <-wrote:
		case <-late.C:
			require.FailNow(term.t, "the terminal does not show "+pattern, text)
		}
	}
}

// id is the form of the ids of objects, which texts for people do not have.
var id = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-`)

// run types a command, which must succeed, and returns what it prints.
func (term *terminal) run(command string) string {
	term.t.Helper()
	term.types(command + "\n")
	text, code := term.await(prompt.String())
	require.Equal(term.t, "0", code[1], text)
	if !strings.HasPrefix(command, "curl ") {
		require.NotRegexp(term.t, id, text)
	}
	return text
}

// ends presses Ctrl-C, and waits for the end of the program.
func (term *terminal) ends() {
	term.t.Helper()
	term.types("\x03")
	term.await(prompt.String())
}
