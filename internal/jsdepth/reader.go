package jsdepth

// Kind is the kind of a token.
type Kind int

// The kinds of tokens. A template with substitutions is an Open "${" and a Close for each
// substitution, without its text.
const (
	Word       Kind = iota // an identifier or a keyword
	Literal                // a string, a number, a regular expression or a template without substitutions
	Open                   // an opening bracket
	Close                  // a closing bracket
	Punctuator             // an operator or a separator
)

// Token is a token of a file.
type Token struct {
	Kind     Kind
	Text     string
	Offset   int  // of its first byte
	Depth    int  // of the brackets around it; a bracket has the depth of what is outside of it
	Newline  bool // a line ends between it and the token before
	Property bool // it is a word after a dot
}

// Reader reads the tokens of a file within the limits of [Check], without recursion and in linear
// time. It does not store them.
type Reader struct{ c checker }

// NewReader returns a reader of a file.
func NewReader(source string) *Reader {
	r := &Reader{checker{scanner: scanner{source: source}}}
	r.c.levels = append(r.c.levels, level{})
	return r
}

// Next returns the next token, and false at the end of the file or where it exceeds a limit.
func (r *Reader) Next() (Token, bool) {
	c := &r.c
	if c.reason != "" || !c.next() || c.reason != "" {
		return Token{}, false
	}
	t := Token{c.kind, c.source[c.start:min(c.at, len(c.source))], c.start, len(c.levels) - 1, c.newline, c.property}
	c.token()
	if c.reason != "" {
		return Token{}, false
	}
	if t.Kind == Close {
		t.Depth = min(t.Depth, len(c.levels)-1)
	}
	return t, true
}

// Err returns the limit that the file exceeds as an [*Error], or nil.
func (r *Reader) Err() error {
	if r.c.reason != "" {
		return At(r.c.source, r.c.start, r.c.reason)
	}
	return nil
}
