package permission

import (
	"regexp"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/internal/permission/shell"
)

// The kinds of arguments that a command takes in addition to options.
const (
	takesNone    = iota
	takesPaths   // paths in the working directory
	takesPattern // a pattern, unless an option gives it, and then paths
	takesText    // any text
	takesFormat  // a text that begins with "+"
	takesCommits // commits and paths
)

// readOnlyUse describes the use of a command that only reads: the options with which it changes
// nothing, runs no other command, and reads no file except its arguments. The name of a long option
// ends in "=" if the option takes a value, and in "?" if the value is optional.
type readOnlyUse struct {
	args   int
	short  string // letters of options without a value
	valued string // letters of options with a value
	long   string // names of long options, between spaces
	number bool   // -5 is a number of lines or commits
	deep   bool   // it reads all files below a directory
}

const gitLong = " no-ext-diff no-textconv stat? shortstat numstat summary name-only name-status cached staged patch no-patch" +
	" color? no-color word-diff? unified= find-renames? find-copies? diff-filter= full-index abbrev? ignore-all-space raw" +
	" ignore-space-change ignore-blank-lines ignore-space-at-eol minimal patience histogram check exit-code quiet" +
	" dirstat? merge-base "

const logLong = gitLong + " oneline graph decorate? no-decorate all branches? tags? remotes? max-count= skip= since=" +
	" until= after= before= author=" +
	" committer= grep= invert-grep merges no-merges first-parent reverse date= format= pretty? abbrev-commit follow" +
	" topo-order date-order" +
	" left-right cherry-pick all-match regexp-ignore-case extended-regexp fixed-strings no-notes relative-date no-renames root "

var readOnlyUses = map[string]readOnlyUse{
	"pwd": {short: "LP"},
	"ls": {args: takesPaths, short: "laAhtrSR1dFisngoGpkmxCcuUXvQBNbqf", long: " all almost-all human-readable" +
		" recursive reverse size inode classify? directory" +
		" color? group-directories-first full-time no-group numeric-uid-gid sort= time= time-style= format= hide= ignore= si "},
	"cat": {args: takesPaths, short: "nbsAETvetu", long: " number number-nonblank squeeze-blank show-all show-ends" +
		" show-tabs show-nonprinting "},
	"head": {args: takesPaths, short: "qv", valued: "nc", long: " lines= bytes= quiet silent verbose ", number: true},
	"tail": {args: takesPaths, short: "qv", valued: "nc", long: " lines= bytes= quiet silent verbose ", number: true},
	"wc":   {args: takesPaths, short: "lwcmL", long: " lines words bytes chars max-line-length "},
	"grep": {args: takesPattern, short: "EFGPivwxcLlqsobHhnZzrIUay", valued: "eABCm", number: true,
		long: " extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match" +
			" word-regexp line-regexp count color? colour?" +
			" files-without-match files-with-matches max-count= only-matching quiet silent no-messages byte-offset" +
			" with-filename no-filename line-number" +
			" null null-data recursive text after-context= before-context= context= include= exclude= exclude-dir=" +
			" regexp= binary-files= "},
	"rg": {args: takesPattern, short: "iSsFwxvclnNHIopPqaU.u0", valued: "egtTmABCjMdEr", deep: true,
		long: " ignore-case smart-case case-sensitive fixed-strings word-regexp line-regexp invert-match count" +
			" count-matches files-with-matches" +
			" files-without-match line-number no-line-number with-filename no-filename only-matching pcre2 pretty" +
			" quiet text multiline multiline-dotall" +
			" hidden no-ignore no-ignore-vcs unrestricted null heading no-heading column no-column color= colors=" +
			" sort= sortr= stats json trim vimgrep files" +
			" regexp= glob= iglob= type= type-not= max-count= after-context= before-context= context= max-columns=" +
			" max-depth= max-filesize= encoding= replace=" +
			" passthru no-config no-messages "},
	"stat": {args: takesPaths, short: "ft", valued: "c", long: " format= printf= file-system terse "},
	"file": {args: takesPaths, short: "bihkNnr0", long: " brief mime mime-type mime-encoding no-dereference" +
		" keep-going raw "},
	"du": {args: takesPaths, short: "shackmbxSl0", valued: "dt", long: " summarize human-readable all total" +
		" bytes apparent-size one-file-system separate-dirs max-depth= threshold= exclude= si null "},
	"df": {args: takesPaths, short: "hHkmTialP", valued: "tx", long: " human-readable si print-type inodes" +
		" all local portability total type= exclude-type= "},
	"date":  {args: takesFormat, short: "uRI", valued: "d", long: " utc universal rfc-email rfc-3339= iso-8601? date= "},
	"echo":  {args: takesText},
	"which": {args: takesPaths, short: "a"},
	"git status": {args: takesCommits, short: "sbuz", long: " short branch porcelain? long untracked-files?" +
		" ignored? show-stash ahead-behind no-ahead-behind renames no-renames column? "},
	"git diff":   {args: takesCommits, short: "pusRwbMCazW", valued: "USG", long: gitLong, deep: true},
	"git log":    {args: takesCommits, short: "pusRwbMCaziEFmcgW", valued: "nUSG", long: logLong, number: true, deep: true},
	"git show":   {args: takesCommits, short: "pusRwbMCaziEFmcW", valued: "nUSG", long: logLong, number: true, deep: true},
	"git branch": {short: "arv", long: " all remotes verbose show-current color? no-color no-column "},
}

// signature is a placeholder of git in the format of a commit, for which git runs gpg.
var signature = regexp.MustCompile(`%[-+ ]?G`)

// onlyReads reports whether every command of a script has a known read-only use. It returns the
// script to execute.
func (p *Policy) onlyReads(s *script) (shell.Script, bool) {
	if s.opaque != nil || len(s.commands) == 0 {
		return nil, false
	}

	commands := slices.Clone(s.commands)
	for i, c := range commands {
		if !p.isReadOnly(c) {
			return nil, false
		}

		if c.Words[0].Text == "git" {
			commands[i].Words = gitWithoutPrograms(c.Words[1:])
		}
	}

	return commands, true
}

// gitWithoutPrograms returns a read-only command of git with options that disable the programs that
// the configuration of a repository may name. No option disables filters and another worktree.
func gitWithoutPrograms(args []shell.Word) []shell.Word {
	if args[0].Text == "--no-pager" {
		args = args[1:]
	}

	var words []shell.Word
	if name := args[0].Text; name == "status" || name == "diff" {
		words = literals("bash", "-c", withoutFilters, "git "+name)
	}

	words = append(words, gitPrefix...)
	words = append(words, args[0])
	switch args[0].Text {
	case "status":
		words = append(words, shell.Literal("--ignore-submodules=all"))
	case "diff", "log", "show":
		for _, option := range []string{"--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=all"} {
			words = append(words, shell.Literal(option))
		}
	}

	return append(words, args[1:]...)
}

// withoutFilters executes a command of git, whose name is $0, unless git finds a filter or another
// worktree in the configuration of the repository. It fails if git cannot read the configuration.
const withoutFilters = `names=$(git --no-pager config --show-scope --name-only --get-regexp '^(filter[.].*|core[.]worktree)$')
case "$?$names" in
1) exec "$@" ;;
0*local* | 0*worktree*) reason='the configuration of the repository names programs or another worktree' ;;
0*) exec "$@" ;;
*) reason='git cannot read the configuration of the repository' ;;
esac
echo "$0: the mode auto does not execute it: $reason. A rule such as Bash($0 *) permits it." >&2
exit 1`

var gitPrefix = literals("env", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", // a missing object is not fetched
	"git", "--no-pager", "--no-optional-locks",
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
	"-c", "gpg.program=/dev/null", "-c", "gpg.openpgp.program=/dev/null", "-c", "gpg.x509.program=/dev/null", "-c", "gpg.ssh.program=/dev/null",
	"-c", "log.showSignature=false", "-c", "format.pretty=medium", "-c", "log.diffMerges=separate", // remerge executes merge drivers
	"-c", "diff.submodule=short", "-c", "diff.ignoreSubmodules=all", "-c", "status.submoduleSummary=false", "-c", "submodule.recurse=false")

func literals(texts ...string) []shell.Word {
	words := make([]shell.Word, len(texts))
	for i, text := range texts {
		words[i] = shell.Literal(text)
	}

	return words
}

// readable reports whether a path is in the working directory, is not hidden from Read, and does
// not block its reader.
func (p *Policy) readable(name string) bool {
	t := p.dir.target(name)
	return t.inReal && !p.hidesAll(t.real) && (!t.inText || !p.hidesAll(t.text)) && !p.dir.blocks(t.real)
}

// hidesAll is Hides for a path that may be the working directory.
func (p *Policy) hidesAll(path string) bool {
	return path != "." && p.Hides(path)
}

func (p *Policy) isReadOnly(c shell.Command) bool {
	args := make([]string, len(c.Words))
	for i, w := range c.Words {
		if args[i] = w.Text; w.IsGlob() { // it may match an option or a link
			return false
		}
	}

	for _, r := range c.Redirects {
		if r.Operator == "<" && r.Target != devNull && !p.readable(r.Target) {
			return false
		}
	}

	name, args := args[0], args[1:]
	if name == "find" {
		return p.isReadOnlyFind(args)
	}

	if name == "git" {
		if len(args) > 0 && args[0] == "--no-pager" {
			args = args[1:]
		}

		if len(args) == 0 {
			return false
		}

		name, args = "git "+args[0], args[1:]
	}

	use, ok := readOnlyUses[name]
	if !ok {
		return false
	}

	if use.args == takesText {
		return true
	}

	parsed, ok := use.parse(args)
	return ok && (!parsed.deep || !p.hiding.any()) && p.allowsOperands(use.args, parsed)
}

// arguments are the arguments of a command without its options.
type arguments struct {
	operands []string
	pattern  bool // an option gives the pattern, or makes it unnecessary
	deep     bool // as in readOnlyUse
}

// parse separates options and operands. It fails if an option is unknown.
func (u readOnlyUse) parse(words []string) (arguments, bool) {
	a := arguments{deep: u.deep}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			a.operands = append(a.operands, words[i+1:]...)
			return a, true
		case strings.HasPrefix(w, "--"):
			name, value, has := strings.Cut(w[2:], "=")
			switch {
			case u.args == takesCommits && signature.MatchString(value):
				return a, false
			case strings.Contains(u.long, " "+name+" "):
				if has {
					return a, false
				}
			case strings.Contains(u.long, " "+name+"? "):
			case strings.Contains(u.long, " "+name+"= "):
				if !has && u.args != takesCommits {
					i++
				}
			default:
				return a, false
			}

			a.pattern = a.pattern || name == "regexp" || name == "files"
			a.deep = a.deep || u.args == takesPattern && name == "recursive"
		case len(w) > 1 && w[0] == '-':
			value, ok := u.letters(w[1:], &a)
			if !ok {
				return a, false
			}

			if value && u.args != takesCommits { // git takes some values only from the same word
				i++
			}
		default:
			a.operands = append(a.operands, w)
		}
	}

	return a, true
}

// letters reads a cluster of short options such as -rn5. It reports whether the next word is the
// value of the last one, and whether all are known.
func (u readOnlyUse) letters(cluster string, a *arguments) (value, ok bool) {
	if u.number && strings.Trim(cluster, "0123456789") == "" {
		return false, true
	}

	for i := range len(cluster) {
		letter := cluster[i : i+1]
		switch {
		case strings.Contains(u.valued, letter):
			a.pattern = a.pattern || letter == "e"
			return i+1 == len(cluster), true
		case !strings.Contains(u.short, letter):
			return false, false
		}

		a.deep = a.deep || u.args == takesPattern && letter == "r"
	}

	return false, true
}

// allowsOperands reports whether the operands of a command are of the kind that it takes, and all
// files among them are readable.
func (p *Policy) allowsOperands(kind int, a arguments) bool {
	operands := a.operands
	switch kind {
	case takesNone:
		return len(operands) == 0
	case takesFormat:
		return len(operands) == 0 || len(operands) == 1 && strings.HasPrefix(operands[0], "+")
	case takesPattern:
		if !a.pattern && len(operands) > 0 {
			operands = operands[1:]
		}
	}

	for _, operand := range operands {
		if kind == takesCommits { // commit:path; with ./ or ../ the path is relative to the directory
			_, path, found := strings.Cut(operand, ":")
			if strings.HasPrefix(operand, ":") || found && !p.readable(path) {
				return false
			}
		}

		if !p.readable(operand) {
			return false
		}
	}

	return true
}

// The tests of find without an argument, and those with an argument that is not a file.
const (
	findPlain = " -empty -print -print0 -not ! -a -and -o -or ( ) -prune -quit -true -false -ls -xdev -mount -depth" +
		" -readable -writable -executable "
	findValued = " -name -iname -path -ipath -wholename -iwholename -type -maxdepth -mindepth -size -mtime -mmin" +
		" -atime -amin -ctime -cmin" +
		" -regex -iregex -regextype -perm -user -group -uid -gid -links -printf "
)

func (p *Policy) isReadOnlyFind(args []string) bool {
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "(" && args[0] != "!" {
		if !p.readable(args[0]) {
			return false
		}

		args = args[1:]
	}

	for i := 0; i < len(args); i++ {
		switch word := " " + args[i] + " "; {
		case strings.Contains(findPlain, word):
		case args[i] == "-newer":
			if i++; i == len(args) || !p.readable(args[i]) {
				return false
			}
		case strings.Contains(findValued, word):
			i++
		default:
			return false
		}
	}

	return true
}
