package catalog

import "strings"

// searchText returns the value of a search column: what q is compared with.
func searchText(name, title string) string { return strings.ToLower(name + "\n" + title) }

// searchPattern returns the pattern of LIKE ... ESCAPE '\' that finds a text in a search column, in
// any letter case. All characters of the text are literal.
func searchPattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(text)) + "%"
}
