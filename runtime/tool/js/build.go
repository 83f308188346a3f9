package js

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// bundle makes one script of a tool's file: types stripped, syntax that the engine does not know lowered, no import
// left. Running the script hands the default export to __define. The map leads back to the file.
//
// It runs in a worker: a parser can be made to overflow its stack, which ends a Go program.
func bundle(file, source string) (script string, mappings sourceMap, err error) {
	loader := api.LoaderJS
	if ext := path.Ext(file); ext == ".ts" || ext == ".mts" {
		loader = api.LoaderTS
	}
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
			return api.OnResolveResult{}, fmt.Errorf("cannot import %q: a tool is one file, and can import %q alone", a.Path, ours)
		})
		b.OnLoad(api.OnLoadOptions{Filter: ".*"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			contents, as := source, loader
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
		return "", sourceMap{}, errors.New(told(result.Errors, file))
	}
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
			return "", sourceMap{}, fmt.Errorf("read source map: %w", err)
		}
		mappings = sourceMap{m.Mappings, slices.Index(m.Sources, toolSpace+":"+file)}
	}
	return script, mappings, nil
}

// told gives the first errors of a build, each with its place.
func told(errs []api.Message, file string) string {
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
	return strings.Join(lines, "\n")
}
