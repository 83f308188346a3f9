package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// serve runs the test binary as a stdio server, or as a process that is not one.
func serve(role string) int {
	if err := leaveWord(role); err != nil {
		return fail(err)
	}
	switch role {
	case "tools":
		fmt.Fprintln(os.Stderr, "a line of stderr "+strings.Repeat("long ", 5000))
		if err := toolServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			return fail(err)
		}
	case "greeting": // before the protocol, and flooding afterwards if it is told to
		text, err := os.ReadFile("words")
		if err != nil {
			return fail(err)
		}
		fmt.Println(string(text))
		server := toolServer()
		offer(server, "chat", answers(func(_ context.Context, text string) (*sdk.CallToolResult, error) {
			count, err := strconv.Atoi(text)
			fmt.Print(strings.Repeat(strings.Repeat("c", 999)+"\n", count))
			return says("done"), err
		}))
		if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			return fail(err)
		}
	case "silent": // reads and never responds; survives SIGTERM and the end of its input
		signal.Ignore(syscall.SIGTERM)
		startChild("sleeper")
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // until the end of the input
		return block()
	case "mutter": // writes lines to stderr when a tool is called
		server := sdk.NewServer(&sdk.Implementation{Name: "mutter", Version: "1"}, nil)
		offer(server, "mutter", answers(func(_ context.Context, text string) (*sdk.CallToolResult, error) {
			count, err := strconv.Atoi(text)
			fmt.Fprint(os.Stderr, strings.Repeat(strings.Repeat("m", 999)+"\n", count))
			return says("done"), err
		}))
		if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			return fail(err)
		}
	case "late": // serves when the test opens a pipe, as a package runner does after it has installed the package
		gate, err := os.Open("gate")
		if err != nil {
			return fail(err)
		}
		gate.Close()
		if err := toolServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			return fail(err)
		}
	case "asker":
		if err := asker(bookSeat).Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			return fail(err)
		}
	case "both":
		if err := bothAsker().Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			return fail(err)
		}
	case "sleeper":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		return block()
	case "garbage":
		fmt.Println("[This is not a protocol.]")
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // until the end of the input
	case "endless":
		bufio.NewReader(os.Stdin).ReadString('\n') //nolint:errcheck // whatever it is
		fmt.Print(`{"jsonrpc":"2.0","id":1,"result":"`)
		for page := make([]byte, 1<<16); ; {
			if _, err := os.Stdout.Write(append(page[:0], strings.Repeat("x", 1<<16)...)); err != nil {
				return 1
			}
		}
	case "hostile":
		return serveHostile()
	case "single", "ignores", "strict":
		return single(role)
	case "exit":
		fmt.Fprint(os.Stderr, strings.Repeat("an earlier line\n", 20)+"no "+os.Getenv("DATABASE")+"\n"+strings.Repeat("x",
			9000)+"\n\nbye")
		return 3
	case "middle": // a program that uses a server and is killed
		return middle()
	}
	return 0
}

// block waits without end. The Go runtime would end a program whose last goroutine is in an empty
// select.
func block() int {
	never, _, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	io.Copy(io.Discard, never) //nolint:errcheck // it does not return
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// leaveWord writes the process id into the working directory, atomically.
func leaveWord(role string) error {
	name := fmt.Sprintf("%s-%d", role, os.Getpid())
	if err := os.WriteFile(name+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name+".pid")
}

func startChild(role string) {
	self, err := os.Executable()
	if err != nil {
		return
	}
	cmd := exec.Command(self, "serve", role)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // holds the pipes
	cmd.Start()                                   //nolint:errcheck // the test waits for its word
}

// single is a server of an older protocol that executes one call at a time: a call of stick blocks
// all later messages. In the role strict it ends at a message before initialize, and as ignores it
// does not respond to one.
func single(role string) int {
	initialized := false
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var message struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
			Result json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			return fail(err)
		}
		initialized = initialized || message.Method == "initialize"
		if !initialized && role == "strict" {
			return fail(errors.New("expected initialize"))
		}
		if message.ID == nil || !initialized && role == "ignores" {
			continue
		}
		answer := `{}`
		switch message.Method {
		case "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", message.ID)
			continue
		case "": // the response to the question of elicit
			text, err := json.Marshal(string(message.Result))
			if err != nil {
				return fail(err)
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`+"\n", strings.Trim(string(message.ID), `"`), text)
			continue
		case "initialize":
			answer = `{"protocolVersion":"2025-11-25","serverInfo":{"name":"single","version":"1"},"capabilities":{"tools":{}}}`
		case "tools/list":
			answer = `{"tools":[{"name":"stick","inputSchema":{"type":"object"}},{"name":"say","inputSchema":{"type":"object"}},{"name":"elicit","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			switch message.Params.Name {
			case "stick":
				return block()
			case "elicit":
				fmt.Printf(`{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}`+"\n", message.ID)
				continue
			}
			answer = `{"content":[{"type":"text","text":"said"}]}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", message.ID, answer)
	}
	return 0
}

func middle() int {
	cwd, err := os.Getwd()
	if err != nil {
		return fail(err)
	}
	connector, err := mcp.New(mcp.Config{CWD: cwd, Dir: os.Getenv("PRIVATE")})
	if err != nil {
		return fail(err)
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	s, err := connector.Open("test", agent.MCPServer{Transport: agentvalue.TransportStdio, Command: self,
		Args: []string{"serve", "tools"}, CWD: os.Getenv("SERVER_CWD")}, agent.Limits{}, nil)
	if err != nil {
		return fail(err)
	}
	if _, err := s.Tools(context.Background()); err != nil {
		return fail(err)
	}
	fmt.Println("ready")
	return block()
}

// toolServer is the server of most tests, over each transport.
func toolServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, &sdk.ServerOptions{PageSize: 3})
	offer(server, "echo", answers(func(_ context.Context, text string) (*sdk.CallToolResult, error) { return says(text), nil }))
	offer(server, "fail", answers(func(_ context.Context, text string) (*sdk.CallToolResult, error) {
		res := says("it did not work: " + text)
		res.IsError = true
		return res, nil
	}))
	offer(server, "refuse", answers(func(context.Context, string) (*sdk.CallToolResult, error) {
		return nil, errors.New("a protocol error")
	}))
	offer(server, "crash", answers(func(context.Context, string) (*sdk.CallToolResult, error) {
		os.Exit(7)
		return nil, nil
	}))
	offer(server, "environ", answers(func(context.Context, string) (*sdk.CallToolResult, error) {
		env := os.Environ()
		slices.Sort(env)
		return says(strings.Join(env, "\n")), nil
	}))
	offer(server, "cwd", answers(func(context.Context, string) (*sdk.CallToolResult, error) {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		dir, err = filepath.EvalSymlinks(dir)
		return says(dir), err
	}))
	offer(server, "family", answers(func(context.Context, string) (*sdk.CallToolResult, error) {
		startChild("sleeper")
		return says("started"), nil
	}))
	offer(server, "wait", answers(func(ctx context.Context, text string) (*sdk.CallToolResult, error) {
		os.WriteFile("waiting", nil, 0o600) //nolint:errcheck // the test waits for it
		<-ctx.Done()
		os.WriteFile("cancelled", nil, 0o600) //nolint:errcheck // the test waits for it
		return nil, ctx.Err()
	}))
	offer(server, "deaf", answers(func(context.Context, string) (*sdk.CallToolResult, error) { select {} }))
	offer(server, "progress", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for step := range 3 {
			params := &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(step)}
			if err := req.Session.NotifyProgress(ctx, params); err != nil {
				return nil, err
			}
			params.ProgressToken = "another"
			if err := req.Session.NotifyProgress(ctx, params); err != nil {
				return nil, err
			}
		}
		return says("done"), nil
	})
	offer(server, "grow", answers(func(_ context.Context, text string) (*sdk.CallToolResult, error) {
		offer(server, text, answers(func(context.Context, string) (*sdk.CallToolResult, error) { return says("new"), nil }))
		return says("grown"), nil
	}))
	return server
}
