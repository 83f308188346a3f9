// Package jsdepth limits the depth of a JavaScript or TypeScript file before a parser reads it.
//
// Parsers recurse for each level of nesting. A file of some hundred kilobytes can overflow the
// stack of a Go program, which cannot be recovered, or keep a parser busy for minutes. [Check]
// reads the tokens of a file once, without recursion, in time and memory linear in its size. It
// limits
//
//   - open brackets and template substitutions to 200,
//   - operators and keywords of open statements to 2,000 together, such as !!!a, a=b=c, a.b.c, and
//     if(a)if(b)c,
//   - elements of a comma expression to 20,000.
//
// Where a slash can be a division or the beginning of a regular expression depending on the
// grammar, Check decides by the token before it, or rejects the file if that is not sufficient:
// after a closing brace and after >. HTML comments are rejected. A file that passes may still have
// syntax errors.
package jsdepth
