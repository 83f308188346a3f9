package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// bundle compiles a tool's file to one script without types, imports and syntax that the engine
// does not support. The script calls __define with the default export. The source map refers to the
// file.
//
// It runs in a worker, because a stack overflow in the parser would terminate the process.
func bundle(file, source string) (string, frame.SourceMap, error) {
	const entry, toolSpace, ours = "\x00entry", "tool", "agenthost"
	imports := api.Plugin{Name: "imports", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			switch {
			case a.Kind == api.ResolveEntryPoint, a.Path == entry && a.Importer == "":
				return api.OnResolveResult{Path: entry, Namespace: ours}, nil
			case a.Path == "tool" && a.Importer == entry:
				return api.OnResolveResult{Path: file, Namespace: toolSpace}, nil
			case a.Path == ours:
				return api.OnResolveResult{Path: ours, Namespace: ours}, nil
			}

			return api.OnResolveResult{}, fmt.Errorf("cannot import %q: a tool is one file and can import only %q", a.Path, ours)
		})
		b.OnLoad(api.OnLoadOptions{Filter: ".*"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			contents, as := source, loaderOf(file)
			switch {
			case a.Path == entry:
				contents, as = `import * as file from "tool"; __define(file.default);`, api.LoaderJS
			case a.Namespace == ours:
				contents, as = `export const defineTool = globalThis.defineTool;`, api.LoaderJS
			}

			return api.OnLoadResult{Contents: &contents, Loader: as}, nil
		})
	}}
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{entry}, Outfile: "out.js", Bundle: true, Write: false,
		Format: api.FormatIIFE, Platform: api.PlatformNeutral, Target: api.ES2023, Charset: api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone, LogLevel: api.LogLevelSilent, TsconfigRaw: `{}`,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
		Plugins: []api.Plugin{imports},
	})
	if len(result.Errors) > 0 {
		return "", frame.SourceMap{}, errors.New(buildErrors(result.Errors, file))
	}

	var mappings frame.SourceMap
	var script string
	for _, out := range result.OutputFiles {
		if !strings.HasSuffix(out.Path, ".map") {
			script = string(out.Contents)
			continue
		}

		var m struct {
			Sources  []string `json:"sources"`
			Mappings string   `json:"mappings"`
		}
		if err := json.Unmarshal(out.Contents, &m); err != nil {
			return "", frame.SourceMap{}, fmt.Errorf("read source map: %w", err)
		}

		mappings = frame.SourceMap{Mappings: m.Mappings, File: slices.Index(m.Sources, toolSpace+":"+file)}
	}

	return script, mappings, nil
}

// buildErrors formats the first errors of a build with their places.
func buildErrors(errs []api.Message, file string) string {
	var lines []string
	for _, e := range errs[:min(len(errs), 5)] {
		if at := e.Location; at != nil {
			lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", file, at.Line, at.Column+1, e.Text))
			continue
		}

		lines = append(lines, e.Text)
	}

	if more := len(errs) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}

	return strings.Join(lines, "; ")
}
