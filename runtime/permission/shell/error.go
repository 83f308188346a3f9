package shell

// Error is the reason why a text cannot be read.
type Error struct {
	Construct string // such as "a here-document"
	Advice    string // how to write the command
}

func (e *Error) Error() string { return e.Construct + ": " + e.Advice }

var (
	errTooLong      = &Error{"more than 64 KiB of text", "write the text to a file, and use the file"}
	errControl      = &Error{"a control character, or text that is not UTF-8", "leave it out; lines end with a newline only"}
	errQuote        = &Error{"a quote that is not closed", "close it"}
	errEnd          = &Error{"a backslash at the end", "leave it out"}
	errIncomplete   = &Error{"an operator without a command before or after it", "write a command on both sides"}
	errBackground   = &Error{"the operator &", "run the command in the foreground, and put an & that is text in quotes"}
	errPipeBoth     = &Error{"the operator |&", "write 2>&1 |"}
	errParenthesis  = &Error{"an unquoted parenthesis (a subshell, a function or a pattern)", "write the commands as a list, and put parentheses that are text in quotes"}
	errSubstitution = &Error{"a command substitution", "run the inner command in a call of its own, and write its output as text"}
	errProcess      = &Error{"a process substitution", "use a pipe, or a file"}
	errVariable     = &Error{"an expansion that begins with $", "write the value itself, or put a $ that is text in single quotes"}
	errDollarQuote  = &Error{`a quote that begins with $' or $"`, "use plain quotes"}
	errHereDocument = &Error{"a here-document (<<)", "write the text to a file with Write, and use the file as an argument or with <"}
	errHereString   = &Error{"a here-string (<<<)", "use echo 'text' and a pipe"}
	errDescriptor   = &Error{"a redirection of another descriptor than 0, 1 and 2", "redirect only these, and put a space between a number and < or >"}
	errRedirect     = &Error{"a redirection other than <, >, >>, 2>&1 and &>", "use one of these"}
	errTarget       = &Error{"a redirection whose file is a glob, or missing", "write the name of the file"}
	errNoCommand    = &Error{"a redirection without a command", "write the command before it"}
	errAssignment   = &Error{"an assignment", "write the value itself where it is used, or use env NAME=value before a program"}
	errTilde        = &Error{"a ~ that stands for a directory", "write the whole path, or put a ~ that is text in quotes"}
	errBraces       = &Error{"a brace expansion", "write each word, or put braces that are text in quotes"}
	errSet          = &Error{"brackets that are not a simple set such as [a-z]", "put brackets that are text in quotes"}
	errName         = &Error{"a command whose name is empty or a glob", "write the name"}
	errSpace        = &Error{"an unusual space character", "use plain spaces, or put it in quotes"}
)
