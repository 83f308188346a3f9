package toolfile

import (
	"fmt"
	"path"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/seed93082962/agenthost/internal/jsdepth"
)

// maxParsed bounds the files that esbuild parses, in bytes. Its time is quadratic in the number of
// functions with the same name.
const maxParsed = 256 << 10

// checkSyntax reports the first syntax error of a file that is not too large.
func checkSyntax(file, source string) (err error) {
	if len(source) > maxParsed {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &Error{Reason: fmt.Sprintf("the parser failed: %.100v", v)}
		}
	}()
	loader := api.LoaderJS
	if ext := path.Ext(file); ext == ".ts" || ext == ".mts" {
		loader = api.LoaderTS
	}
	// Without MinifyWhitespace, deep code is indented and becomes hundreds of times as large.
	result := api.Transform(withoutEnums(source), api.TransformOptions{
		Loader: loader, Target: api.ESNext, Charset: api.CharsetUTF8, MinifyWhitespace: true,
		LegalComments: api.LegalCommentsNone, LogLevel: api.LogLevelSilent, LogLimit: 1, TsconfigRaw: `{}`,
	})
	if len(result.Errors) == 0 {
		return nil
	}
	e := result.Errors[0]
	if e.Location == nil {
		return &Error{Reason: e.Text}
	}
	return &Error{e.Location.Line, e.Location.Column + 1, e.Text}
}

// withoutEnums returns the file with the members of its enums replaced by spaces. esbuild computes
// their values and inserts them wherever they are used: each of 40 members that is twice the one
// before would double the memory.
func withoutEnums(source string) string {
	if !strings.Contains(source, "enum") {
		return source
	}
	var text strings.Builder
	last := 0
	r := jsdepth.NewReader(source)
	var before [2]jsdepth.Token
	for t, ok := r.Next(); ok; t, ok = r.Next() {
		if t.Text == "{" && before[1].Kind == jsdepth.Word && before[0].Text == "enum" && !before[0].Property {
			begin := t.Offset + 1
			text.WriteString(source[last:begin])
			depth := t.Depth
			for ok && (t.Kind != jsdepth.Close || t.Depth != depth) {
				t, ok = r.Next()
			}
			if last = len(source); ok {
				last = t.Offset
			}
			text.WriteString(blank(source[begin:last]))
		}
		before[0], before[1] = before[1], t
	}
	text.WriteString(source[last:])
	return text.String()
}

// blank replaces all bytes but line feeds by spaces.
func blank(text string) string {
	b := []byte(text)
	for i := range b {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
	return string(b)
}
