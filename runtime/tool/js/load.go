package js

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

const maxSource = 5 << 20 // bytes of a file, the same limit as in the hub

var extensions = []string{".ts", ".mts", ".js", ".mjs"}

// Load reads the file of a tool, verifies its hash, compiles it, and runs it once in a worker to
// get the tool's name, description and input schema. It takes at most 10 s. Files with the same
// content and name are compiled once.
func (h *Host) Load(ctx context.Context, def agent.CustomTool) (tool.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, h.limits.load)
	defer cancel()
	t, err := h.load(ctx, def)
	if err != nil {
		return nil, fmt.Errorf("load custom tool %s: %w", nameOf(def), err)
	}

	return t, nil
}

func nameOf(def agent.CustomTool) string {
	switch {
	case def.Name != "":
		return def.Name
	case def.Path != "":
		return filepath.Base(def.Path)
	}

	return def.FileName
}

func (h *Host) load(ctx context.Context, def agent.CustomTool) (tool.Tool, error) {
	file, source, err := h.source(ctx, def)
	if err != nil {
		return nil, err
	}

	if err := checkExtension(file); err != nil {
		return nil, err
	}

	sum := sha256.Sum256(source)
	hash := "sha256:" + hex.EncodeToString(sum[:])
	if def.Hash != "" && def.Hash != hash {
		return nil, fmt.Errorf("its hash is %s, want %s", hash, def.Hash)
	}

	text, err := textOf(file, string(source))
	if err != nil {
		return nil, err
	}

	prog, err := h.program(ctx, hash+" "+file, file, text)
	if err != nil {
		return nil, err
	}

	if def.Name != "" && def.Name != prog.spec.Name {
		return nil, &fileError{fmt.Sprintf("the name in %s is %q", file, prog.spec.Name)}
	}

	return custom{h, prog}, nil
}

func checkExtension(file string) error {
	if !slices.Contains(extensions, path.Ext(file)) {
		return &fileError{fmt.Sprintf("%q is not a .ts, .mts, .js or .mjs file", file)}
	}

	return nil
}

// textOf returns the text of a file. Only a worker parses it.
func textOf(file, source string) (string, error) {
	if !utf8.ValidString(source) {
		return "", &fileError{file + " is not UTF-8"}
	}

	return strings.TrimPrefix(source, "\uFEFF"), nil
}

// source reads the file of a tool and returns its name and content.
func (h *Host) source(ctx context.Context, def agent.CustomTool) (string, []byte, error) {
	var source []byte
	if def.Path != "" {
		f, err := os.Open(def.Path)
		if err != nil {
			return "", nil, fmt.Errorf("read file: %w", err)
		}

		defer func() { _ = f.Close() }() // it was opened for reading
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return "", nil, fmt.Errorf("%s is not a file", def.Path)
		}

		source, err = bounded(f)
		return filepath.Base(def.Path), source, err
	}

	at, err := url.Parse(def.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" {
		return "", nil, errors.New("its url is not an http or https address")
	}

	file := path.Base(path.Clean("/" + def.FileName))
	if def.FileName == "" {
		file = path.Base(at.Path)
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, def.URL, nil)
	if err != nil {
		return "", nil, errors.New("its url is not an http or https address")
	}

	where := at.Scheme + "://" + at.Host + at.Path // without the query, which can be a signature
	resp, err := h.cfg.HTTPClient.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}

		return "", nil, fmt.Errorf("get %s: %w", where, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("get %s: status %s", where, resp.Status)
	}

	if source, err = bounded(resp.Body); err != nil {
		return "", nil, fmt.Errorf("get %s: %w", where, err)
	}

	return file, source, nil
}

func bounded(r io.Reader) ([]byte, error) {
	source, err := io.ReadAll(io.LimitReader(r, maxSource+1))
	if err == nil && len(source) > maxSource {
		err = fmt.Errorf("the file is larger than %d bytes", maxSource)
	}

	return source, err
}

// program returns a compiled file. The first caller compiles it, others wait.
func (h *Host) program(ctx context.Context, id, file, source string) (*program, error) {
	for {
		h.mu.Lock()
		prog, known := h.programs[id]
		if !known {
			prog = &program{id: id, file: file, ready: make(chan struct{})}
			h.programs[id] = prog
		}

		h.mu.Unlock()
		if known {
			select {
			case <-prog.ready:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}

			if prog.err == nil {
				return prog, nil
			}

			continue // the context of the other caller may have ended
		}

		err := retry(ctx, func() error { return h.build(ctx, prog, source) })
		h.mu.Lock()
		if prog.err = err; err != nil {
			delete(h.programs, id)
		} else {
			h.order = append(h.order, prog)
			h.warmIdle()
			h.startSpares()
		}

		h.mu.Unlock()
		close(prog.ready)
		if err != nil {
			return nil, err
		}

		return prog, nil
	}
}

// fileError is a fault of a file: it is not a tool, or it ended its worker or exceeded the limits
// of one.
type fileError struct{ reason string }

func (e *fileError) Error() string { return e.reason }

// FileFault returns one line of at most 1 KiB for the author of the file, without a stack trace.
func (e *fileError) FileFault() string { return e.reason }

// errLoadTime is the cause of a context whose file did not load within LoadTime.
var errLoadTime = errors.New("the limit of time was reached")

// build compiles and runs a file in a worker.
func (h *Host) build(ctx context.Context, prog *program, source string) error {
	built, code, err := h.read(ctx, frame.KindBuild, prog.file, source)
	if err != nil {
		return err
	}

	if built.Description == "" {
		return &fileError{prog.file + ": the description is empty"}
	}

	if err := builtintool.CheckName(built.Name); err != nil {
		return &fileError{prog.file + ": " + err.Error()}
	}

	prog.code, prog.source = code, built.Map
	prog.spec = tool.Spec{Name: built.Name, Description: built.Description, InputSchema: built.InputSchema}
	return nil
}

// read sends a file to a worker, and returns what the worker found in it and its code.
func (h *Host) read(ctx context.Context, kind byte, file, source string) (frame.Built, string, error) {
	p, err := h.acquire(ctx, nil)
	var built frame.Built
	if err != nil {
		return built, "", err
	}

	defer h.release(p)
	ctx, cancel := context.WithTimeoutCause(ctx, h.limits.build, errLoadTime)
	defer cancel()
	j := &job{id: h.calls.Add(1)}
	j.log = logWriter{log: h.cfg.Logger, ctx: ctx, attrs: []any{"file", file}}
	answer, err := p.do(ctx, j, func() error {
		return p.out.Write(kind, frame.Build{Call: j.id, File: file}, source)
	})
	switch {
	case errors.Is(context.Cause(ctx), errLoadTime):
		return built, "", &fileError{fmt.Sprintf("%s did not load in time: the limit is %v", file, h.limits.build)}
	case ctx.Err() != nil:
		return built, "", fmt.Errorf("%s did not load in time: %w", file, context.Cause(ctx))
	case errors.Is(err, errNotSent):
		return built, "", err
	case err != nil:
		return built, "", &fileError{fmt.Sprintf("%s did not load: %s", file, p.endReason())}
	}

	if err := jsonlimit.Unmarshal(answer.head, &built); err != nil || answer.kind != frame.KindBuilt {
		p.kill()
		return built, "", &fileError{file + " did not load: the response of its worker is malformed"}
	}

	if built.Error != "" {
		return built, "", &fileError{firstLine(built.Error)}
	}

	return built, answer.body, nil
}

// maxReason limits the reason of a fileError, in bytes.
const maxReason = 1 << 10

func firstLine(text string) string {
	line, _, _ := strings.Cut(excerpt.Head(strings.ToValidUTF8(text, "\uFFFD"), maxReason), "\n")
	return line
}

// maxNamed limits what is read from the worker of NameOf, in bytes.
const maxNamed = 1 << 20

// NameOf parses an untrusted file and returns the name of the tool in it: the literal text of name
// in the default export. The caller checks the name. Nothing runs the file, and only a worker
// process parses it, with the limits of a worker, LoadTime and at most two processors. The worker
// ends with the call or with ctx. The error of a faulty file has the
// method FileFault() string, which describes the fault to its author.
func (cfg Config) NameOf(ctx context.Context, file, source string) (name string, err error) {
	if err := checkExtension(file); err != nil {
		return "", err
	}

	text, err := textOf(file, source)
	if err != nil {
		return "", err
	}

	cfg.Workers = 1
	cfg.Env = append([]string{"GOMAXPROCS=2"}, cfg.Env...)
	h, err := New(cfg)
	if err != nil {
		return "", err
	}

	defer func() { err = errors.Join(err, h.Close()) }()
	h.parses = true
	err = retry(ctx, func() error {
		built, _, err := h.read(ctx, frame.KindName, file, text)
		name = built.Name
		return err
	})
	return name, err
}
