package permission

import (
	"errors"
	"slices"
	"strings"
)

// phrase is a pattern over simple commands.
type phrase struct {
	allow []string // each with * for any text
	deny  []string // these, and for a command named by path those by its name
}

func readPhrase(text string) (pattern, error) {
	if strings.ContainsAny(text, "\"'`") || strings.Contains(text, "$(") {
		return nil, errors.New("a Bash pattern is compared with words after the shell has taken quotes away, and has no quotes and substitutions")
	}
	fields := strings.Fields(text)
	if slices.ContainsFunc(fields, func(f string) bool { return strings.Trim(f, "|&;<>()") == "" || strings.HasSuffix(f, ";") }) {
		return nil, errors.New("a Bash pattern is compared with each simple command by itself, and has no operators")
	}
	text = strings.Join(fields, " ")
	var p phrase
	if name, ok := strings.CutSuffix(text, ":*"); ok {
		if name == "" {
			return nil, errors.New("a Bash pattern that ends in :* begins with a command")
		}
		p.allow = append(p.allow, text)
		text = strings.TrimSpace(name) + " *"
	}
	p.allow = append(p.allow, text)
	if bare, ok := strings.CutSuffix(text, " *"); ok && bare != "" {
		p.allow = append(p.allow, bare)
	}
	p.deny = slices.Clone(p.allow)
	for _, form := range p.allow {
		name, rest, more := strings.Cut(form, " ")
		if short := base(name); short != name && short != "" && !strings.Contains(short, "*") {
			if more {
				short += " " + rest
			}
			p.deny = append(p.deny, short)
		}
	}
	return p, nil
}

func (p phrase) allows(c *call, part int) bool {
	text := c.script().commands[part].exact()
	return slices.ContainsFunc(p.allow, func(form string) bool { return matches(form, text) })
}

func (p phrase) denies(c *call) bool {
	s := c.script()
	if s.unclear {
		return true
	}
	return slices.ContainsFunc(s.commands, func(cmd command) bool {
		exact, full, short := cmd.exact(), cmd.loose(false), ""
		if strings.Contains(cmd[0].text, "/") {
			short = cmd.loose(true)
		}
		return slices.ContainsFunc(p.deny, func(form string) bool {
			return overlaps(form, full) || overlaps(form, exact) || short != "" && overlaps(form, short)
		})
	})
}

// matches says whether a text is one that the pattern describes, in which * is any text.
func matches(pattern, text string) bool {
	star, from := -1, 0 // the last *, and where in text it ends for now
	i := 0
	for j := 0; j < len(text); {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, from = i, j
			i++
		case i < len(pattern) && pattern[i] == text[j]:
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}

// overlaps says whether a text may be one that the pattern describes, where hole in the text is any text, too.
func overlaps(pattern, text string) bool {
	if !strings.Contains(text, hole) {
		return matches(pattern, text)
	}
	// row[i] says whether what was read of text may be what pattern[:i] describes.
	row, next := make([]bool, len(pattern)+1), make([]bool, len(pattern)+1)
	row[0] = true
	stars(pattern, row)
	for j := range len(text) {
		if text[j] == hole[0] {
			met := false
			for i := range row {
				met = met || row[i]
				row[i] = met
			}
			continue
		}
		next[0] = false
		for i := range len(pattern) {
			next[i+1] = pattern[i] == '*' && row[i+1] || pattern[i] == text[j] && row[i]
		}
		stars(pattern, next)
		row, next = next, row
	}
	return row[len(pattern)]
}

// stars lets each * of the pattern be no text.
func stars(pattern string, row []bool) {
	for i := range len(pattern) {
		row[i+1] = row[i+1] || pattern[i] == '*' && row[i]
	}
}
