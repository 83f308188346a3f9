package permission

import "strings"

// What a command does with its arguments that are no options.
const (
	takesNone    = iota
	takesPaths   // which have to be in the working directory
	takesPattern // as paths, but the first, unless an option gives the pattern
	takesText
	takesFormat // text that begins with +
	takesCommits
)

// harmless are the options with which a command changes nothing, runs nothing else, and reads no
// file that is not among its arguments. Long ones end in "=" if they take a value, in "?" if they
// may have one behind an equals sign.
type harmless struct {
	args   int
	short  string // letters that take no value
	valued string // letters that do
	long   string // names between spaces
	number bool   // -5 is a number of lines or commits
	deep   bool   // reads what is in the files below a directory
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

var knownHarmless = map[string]harmless{
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
	"git status": {args: takesCommits, short: "sbvuz", long: " short branch porcelain? long verbose untracked-files?" +
		" ignored? show-stash ahead-behind no-ahead-behind renames no-renames column? "},
	"git diff":   {args: takesCommits, short: "pusRwbMCazW", valued: "USG", long: gitLong, deep: true},
	"git log":    {args: takesCommits, short: "pusRwbMCaziEFmcgW", valued: "nUSG", long: logLong, number: true, deep: true},
	"git show":   {args: takesCommits, short: "pusRwbMCaziEFmcW", valued: "nUSG", long: logLong, number: true, deep: true},
	"git branch": {short: "arv", long: " all remotes verbose show-current color? no-color no-column "},
}

// changesNothing says whether a script is made of commands alone that are known to be harmless.
func (p *Policy) changesNothing(s *script) bool {
	if s.unclear || !s.plain || len(s.commands) == 0 {
		return false
	}
	for _, in := range s.inputs {
		if !p.readable(in.text) {
			return false
		}
	}
	for _, c := range s.commands {
		if !p.isHarmless(c) {
			return false
		}
	}
	return true
}

// readable says whether a path is in the working directory, not hidden from Read, and nothing that a command would wait at.
func (p *Policy) readable(name string) bool {
	t := p.dir.target(name)
	return t.inReal && !p.hidesAll(t.real) && (!t.inText || !p.hidesAll(t.text)) && !p.dir.blocks(t.real)
}

// hidesAll is for paths of which nobody knows whether they are a file: of a directory, some may be shown.
func (p *Policy) hidesAll(path string) bool {
	return path != "." && p.Hides(path)
}

func (p *Policy) isHarmless(c command) bool {
	args := make([]string, len(c))
	for i, w := range c {
		if args[i] = w.text; w.open {
			return false
		}
	}
	name, args := args[0], args[1:]
	if name == "find" {
		return p.isHarmlessFind(args)
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
	known, ok := knownHarmless[name]
	if !ok {
		return false
	}
	if known.args == takesText {
		return true
	}
	g, ok := known.options(args)
	return ok && (!g.deep || !p.hiding.any()) && p.takes(known.args, g)
}

// given is what a command was given.
type given struct {
	args    []string
	pattern bool // by an option, or none is needed
	deep    bool
}

// options takes the options away. It fails if one is not known.
func (h harmless) options(words []string) (given, bool) {
	g := given{deep: h.deep}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			g.args = append(g.args, words[i+1:]...)
			return g, true
		case strings.HasPrefix(w, "--"):
			name, _, has := strings.Cut(w[2:], "=")
			switch {
			case strings.Contains(h.long, " "+name+" "):
				if has {
					return g, false
				}
			case strings.Contains(h.long, " "+name+"? "):
			case strings.Contains(h.long, " "+name+"= "):
				if !has && h.args != takesCommits {
					i++
				}
			default:
				return g, false
			}
			g.pattern = g.pattern || name == "regexp" || name == "files"
			g.deep = g.deep || h.args == takesPattern && name == "recursive"
		case len(w) > 1 && w[0] == '-':
			value, ok := h.letters(w[1:], &g)
			if !ok {
				return g, false
			}
			if value && h.args != takesCommits { // with git some values stand in the same word or not at all: the next may be a path
				i++
			}
		default:
			g.args = append(g.args, w)
		}
	}
	return g, true
}

// letters reads a cluster such as -rn5 and says whether the next word is a value of it.
func (h harmless) letters(cluster string, g *given) (value, ok bool) {
	if h.number && strings.Trim(cluster, "0123456789") == "" {
		return false, true
	}
	for i := range len(cluster) {
		letter := cluster[i : i+1]
		switch {
		case strings.Contains(h.valued, letter):
			g.pattern = g.pattern || letter == "e"
			return i+1 == len(cluster), true
		case !strings.Contains(h.short, letter):
			return false, false
		}
		g.deep = g.deep || h.args == takesPattern && letter == "r"
	}
	return false, true
}

// takes says whether the arguments are as they should be.
func (p *Policy) takes(kind int, g given) bool {
	args := g.args
	switch kind {
	case takesNone:
		return len(args) == 0
	case takesFormat:
		return len(args) == 0 || len(args) == 1 && strings.HasPrefix(args[0], "+")
	case takesPattern:
		if !g.pattern && len(args) > 0 {
			args = args[1:]
		}
	}
	for _, arg := range args {
		if kind == takesCommits { // commit:path, with the path relative to the top of the repository or, by ./ and ../, to here
			_, path, found := strings.Cut(arg, ":")
			if strings.HasPrefix(arg, ":") || found && !p.readable(path) {
				return false
			}
		}
		if !p.readable(arg) {
			return false
		}
	}
	return true
}

// Tests of find that take no argument, and those that take one which is no file.
const (
	findAlone = " -empty -print -print0 -not ! -a -and -o -or ( ) -prune -quit -true -false -ls -xdev -mount -depth" +
		" -readable -writable -executable "
	findValued = " -name -iname -path -ipath -wholename -iwholename -type -maxdepth -mindepth -size -mtime -mmin" +
		" -atime -amin -ctime -cmin" +
		" -regex -iregex -regextype -perm -user -group -uid -gid -links -printf "
)

func (p *Policy) isHarmlessFind(args []string) bool {
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "(" && args[0] != "!" {
		if !p.readable(args[0]) {
			return false
		}
		args = args[1:]
	}
	for i := 0; i < len(args); i++ {
		switch word := " " + args[i] + " "; {
		case strings.Contains(findAlone, word):
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
