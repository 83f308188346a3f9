package js

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

// preludeLine is past the last line of any tool, so that a line number tells whose code it is: the engine calls all
// code <eval>.
const preludeLine = 1 << 20

// maxDepth bounds the calls of a script that stand on each other. One takes up to 4 KiB of the worker's stack.
const maxDepth = 1000

// surroundings is the bytecode of what scripts find in their sandbox.
type surroundings struct {
	prelude []byte // evaluated, it is the function that the host calls
	library []byte // evaluated, it is a function that adds the rest
}

func compileSurroundings() (s surroundings, err error) {
	if s.prelude, err = compileFolder("prelude", "(function () {", "})()"); err != nil {
		return s, err
	}
	s.library, err = compileFolder("library", "(function (kit) {", "})")
	return s, err
}

// compileFolder makes one function of the files in a folder, in the order of their names.
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

// compile compiles a script in an engine of its own.
func compile(source string) ([]byte, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	defer func() { _ = vm.Close() }()
	return vm.Compile(source, quickjs.EvalGlobal)
}

// sandbox is one engine with the prelude and the code of one tool, ready for one call. One goroutine uses it, but for interrupt.
type sandbox struct {
	vm    *quickjs.VM
	enter quickjs.Value
	host  func(op string, args []any) (any, error) // set by whoever runs it

	mu     sync.Mutex // guards closed: the engine has no memory to interrupt after its end
	closed bool
}

var errOutside = errors.New("this works within call() only, not while the file is loaded")

func newSandbox(around surroundings, memory uintptr) (*sandbox, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, fmt.Errorf("start engine: %w", err)
	}
	s := &sandbox{vm: vm}
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

func (s *sandbox) addLibrary(code []byte) error {
	library, err := s.vm.EvalBytecodeValue(code)
	if err != nil {
		return err
	}
	defer library.Free()
	_, err = s.enter.Call(quickjs.UndefinedValue, "library", library)
	return err
}

// load runs the code of a tool. The result comes through host: the definition as JSON, or an error.
func (s *sandbox) load(code []byte, output int) error {
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

// call enters the prelude, and then runs the jobs it queued.
func (s *sandbox) call(what string, args ...any) (answer any, err error) {
	answer, err = s.enter.Call(quickjs.UndefinedValue, append([]any{what}, args...)...)
	if err != nil {
		return nil, err
	}
	_, err = s.vm.ExecutePendingJobs()
	return answer, err
}

// interrupt stops the script that runs, if it looks. The next entry forgets about it. It is safe from any goroutine.
func (s *sandbox) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.vm.Interrupt()
	}
}

func (s *sandbox) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.enter.Free()
	_ = s.vm.Close()
}
