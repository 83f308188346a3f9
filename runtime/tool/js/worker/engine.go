package worker

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"modernc.org/quickjs"
)

//go:embed prelude/*.js library/*.js
var scripts embed.FS

// preludeLine is larger than the lines of any tool, so that a line number distinguishes the prelude
// from the tool: the engine names all code <eval>.
const preludeLine = 1 << 20

// maxDepth limits the call depth of a script. A call takes up to 4 KiB of the worker's stack.
const maxDepth = 1000

// surroundings is the bytecode of the environment of scripts.
type surroundings struct {
	prelude []byte // evaluates to the function that the host calls
	library []byte // evaluates to a function that adds further APIs
}

func compileSurroundings() (surroundings, error) {
	var err error
	var s surroundings
	if s.prelude, err = compileFolder("prelude", "(function () {", "})()"); err != nil {
		return s, err
	}

	s.library, err = compileFolder("library", "(function (kit) {", "})")
	return s, err
}

// compileFolder compiles the files of a folder, in the order of their names, to one function.
func compileFolder(folder, start, end string) ([]byte, error) {
	var source strings.Builder
	source.WriteString(strings.Repeat("\n", preludeLine))
	source.WriteString(start + " \"use strict\";\n")
	names, err := fs.Glob(scripts, folder+"/*.js")
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		text, err := scripts.ReadFile(name)
		if err != nil {
			return nil, err
		}

		source.Write(text)
	}

	source.WriteString(end)
	code, err := compile(source.String())
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", folder, err)
	}

	return code, nil
}

// compile compiles a script in a new engine.
func compile(source string) ([]byte, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}

	defer func() { _ = vm.Close() }()
	return vm.Compile(source, quickjs.EvalGlobal)
}

// engine is a QuickJS machine with the prelude and the code of a tool, ready for one call. Except
// for interrupt, it is not safe for concurrent use.
type engine struct {
	vm    *quickjs.VM
	enter quickjs.Value
	host  func(op string, args []any) (any, error) // set by its user

	mu     sync.Mutex // guards closed: a closed engine must not be interrupted
	closed bool
}

var errOutside = errors.New("this works only within call(), not while the file is loaded")

func newEngine(around surroundings, memory uintptr) (*engine, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, fmt.Errorf("start engine: %w", err)
	}

	s := &engine{vm: vm}
	vm.SetMemoryLimit(memory)
	vm.SetMaxStackSize(maxDepth)
	vm.SetCanBlock(false)
	err = vm.RegisterHostFunc("__host", func(args []any) (any, error) {
		op, ok := "", len(args) > 0
		if ok {
			op, ok = args[0].(string)
		}

		if ok && op == "library" {
			return nil, s.addLibrary(around.library)
		}

		if !ok || s.host == nil {
			return nil, errOutside
		}

		return s.host(op, args[1:])
	})
	if err == nil {
		s.enter, err = vm.EvalBytecodeValue(around.prelude)
	}

	if err != nil {
		_ = vm.Close()
		return nil, fmt.Errorf("start engine: %w", err)
	}

	return s, nil
}

func (s *engine) addLibrary(code []byte) error {
	library, err := s.vm.EvalBytecodeValue(code)
	if err != nil {
		return err
	}
	defer library.Free()
	_, err = s.enter.Call(quickjs.UndefinedValue, "library", library)
	return err
}

// load runs the code of a tool. It calls host with the definition as JSON, or with an error.
func (s *engine) load(code []byte, output int) error {
	file, err := s.vm.EvalBytecodeValue(code)
	if err != nil {
		return err
	}
	defer file.Free()
	if _, err := s.enter.Call(quickjs.UndefinedValue, "load", file, output); err != nil {
		return err
	}

	_, err = s.vm.ExecutePendingJobs()
	return err
}

// call calls the prelude, then runs the queued jobs.
func (s *engine) call(what string, args ...any) (any, error) {
	answer, err := s.enter.Call(quickjs.UndefinedValue, append([]any{what}, args...)...)
	if err != nil {
		return nil, err
	}

	_, err = s.vm.ExecutePendingJobs()
	return answer, err
}

// interrupt interrupts the running script, if the engine checks for it. The next call resets it. It
// is safe for concurrent use.
func (s *engine) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.vm.Interrupt()
	}
}

func (s *engine) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}

	s.closed = true
	s.enter.Free()
	_ = s.vm.Close()
}
