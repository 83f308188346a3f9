package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags adds the flags of settings, which [Read] reads and [Help] describes.
func AddFlags(flags *pflag.FlagSet, settings any) {
	for _, s := range settingsOf(settings) {
		if name := s.Tag.Get("flag"); name != "" {
			flags.String(name, s.Tag.Get("envDefault"), s.Tag.Get("help"))
			_ = flags.MarkHidden(name) // it exists; Help describes it
		}
	}
}

// names returns the flag, the variable and the key of a setting.
func (s setting) names() string {
	all := []string{s.variable, s.key}
	if flag := s.Tag.Get("flag"); flag != "" {
		all = append([]string{"--" + flag}, all...)
	}

	all = slices.DeleteFunc(all, func(name string) bool { return name == "" })
	return strings.Join(slices.Compact(all), ", ")
}

// describe returns the description with the default.
func (s setting) describe() string {
	help := s.Tag.Get("help")
	if value := s.Tag.Get("envDefault"); value != "" {
		help += " (default " + value + ")"
	}

	return help
}

// widest bounds the lines of the help, in characters.
const widest = 118

// Help returns a list of the settings for a terminal.
func Help(settings any) string {
	var b strings.Builder
	for _, s := range settingsOf(settings) {
		if s.Tag.Get("help") == "" {
			continue
		}

		fmt.Fprintf(&b, "  %s", s.names())
		column := widest
		for word := range strings.FieldsSeq(s.describe()) {
			if column += len(word) + 1; column > widest {
				b.WriteString("\n     ")
				column = len(word) + 6
			}

			b.WriteString(" " + word)
		}

		b.WriteByte('\n')
	}

	return b.String()
}

// Table returns a table of the settings in Markdown.
func Table(settings any) string {
	var b strings.Builder
	b.WriteString("| Setting | |\n|---|---|\n")
	for _, s := range settingsOf(settings) {
		if s.Tag.Get("help") != "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(s.names(), ", ", "`, `"), s.describe())
		}
	}

	return b.String()
}
