package permission

import (
	"slices"
	"strings"
)

// runners are commands that run their arguments, their input or a file as commands, or that change
// what the commands behind them are. The words are separated by spaces.
const runners = " bash sh dash zsh ksh mksh fish ash rbash csh tcsh busybox toybox" +
	" env xargs parallel sudo doas su runuser pkexec sg eval exec source . command builtin nohup nice ionice chrt taskset" +
	" timeout time stdbuf setsid chroot unshare nsenter setpriv setarch systemd-run script watch flock strace ltrace" +
	" coproc trap alias unalias hash enable set shopt bind complete compgen compopt fc history at batch crontab" +
	" read mapfile readarray getopts unset let declare local export readonly typeset function" +
	" entr unbuffer expect dbus-run-session proot fakeroot ld.so "

// asRunner are the options, as patterns, with which commands run another, or assign.
var asRunner = map[string][]string{
	"find":   {"-exec", "-execdir", "-ok", "-okdir"},
	"fd":     {"-x*", "-X*", "--exec*"},
	"rg":     {"--pre", "--pre=*", "--hostname-bin*"},
	"git":    {"--exec*", "--config-env*", "--upload-pack*", "--receive-pack*", "--ext-diff", "--extcmd*"},
	"tar":    {"--to-command*", "--checkpoint-action*", "-I*", "--use-compress-program*"},
	"sort":   {"--compress-prog*"},
	"split":  {"--filter*"},
	"printf": {"-v*"},
	"wait":   {"-p*"},
	"test":   {"-v", "-R"}, // evaluate what stands in the brackets of a[...]
	"[":      {"-v", "-R"},
}

// runsAnother says whether a command may hide another. An argument that is not known yet may be such an option, but not to
// git, for which "git add *.go" is an everyday thing.
func (c command) runsAnother() bool {
	name := base(c[0].text)
	if strings.Contains(runners, " "+name+" ") || strings.HasPrefix(name, "ld-linux") {
		return true
	}
	if name == "git" && c.setsConfig() {
		return true
	}
	return slices.ContainsFunc(asRunner[name], func(option string) bool {
		return slices.ContainsFunc(c[1:], func(w word) bool { return (!w.open || name != "git") && w.may(option) })
	})
}

// setsConfig says whether git is given settings before its subcommand, such as an alias or a pager that is a command.
func (c command) setsConfig() bool {
	for i := 1; i < len(c) && (c[i].open || strings.HasPrefix(c[i].text, "-")); i++ {
		if c[i].may("-c*") {
			return true
		}
		if c[i].text == "-C" { // its value may look like anything
			i++
		}
	}
	return false
}
