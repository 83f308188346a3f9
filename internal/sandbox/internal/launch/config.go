// Package launch is the process between a caller of internal/sandbox and a confined command: it
// sets up namespaces, mounts and limits, starts the command, and ends with it.
//
// A program that imports the package becomes the launcher if the environment has [Variable]: the
// init function of the package does not return then. The init functions of most other packages have
// not run at that time, which makes the start of a launcher ten times as fast as that of the
// program, and needs nothing from its main function. For that reason the package imports few
// packages, and none that imports unicode, reflect or os.
package launch

import (
	"strconv"
)

// Config is what the launcher of one command does, in the order of its fields. It is computed by
// the parent, which can use libraries; the launcher only executes it.
type Config struct {
	Namespaces bool   // the launcher has its own namespaces, and the command one of processes
	First      bool   // the launcher is process 1 of that one; else it starts process 1
	UserMap    string // of the new user namespace, in the format of user_namespaces(7); "" for none
	GroupMap   string
	Loopback   bool // the network namespace is new

	Groups int // the number of descriptors, from GroupFD, to which the launcher writes to join control groups

	Root   string // an empty directory on which the new root is mounted; "" keeps the root
	Mounts []Mount

	Limits  []Limit
	User    int     // the user and group of the command; 0 for those of the launcher
	Ruleset bool    // the descriptor RulesetFD is a Landlock ruleset
	Granted []Grant // rules that are added to it
	Filter  []byte  // a seccomp program, an array of struct sock_filter

	// If NotifyCall, the number of the call seccomp, is set, the launcher executes the calls of
	// which the Filter notifies it. Fallback is the seccomp program where that is not possible.
	NotifyCall int
	Fallback   []byte

	// ProxyPort is the port on 127.0.0.1 of the proxy; 0 for none. Its listener is sent to ProxyFD,
	// or with NotifyCall, each connection.
	ProxyPort int

	Extra int // the number of descriptors, from ExtraFD, that the command has from 3

	Path string // the program, in the new root; "" for a trial without a command
	Dir  string // the working directory, in the new root
	Args []string
	Env  []string

	first first
}

// Mount is one step to fill the new root. Target is absolute in the new root.
type Mount struct {
	Kind   string // see the constants
	Source string
	Target string
}

// The kinds of Mount.
const (
	MountRead    = "read"    // Source, a file or directory, read-only
	MountWrite   = "write"   // Source, a file or directory
	MountDevice  = "device"  // Source, a device
	MountLink    = "link"    // a symbolic link to Source
	MountTmpfs   = "tmpfs"   // an empty file system in memory, of Source bytes
	MountProcess = "process" // the processes of the namespace, read-only
	MountProtect = "protect" // Target, which is mounted already, read-only; it may be missing
	MountKeep    = "keep"    // as MountProtect, and it can be changed, but not renamed
	MountHide    = "hide"    // Target, a socket that is mounted already, is a device without data
	MountNested  = "nested"  // as MountProcess, where a launcher inside can map its user
)

// Grant is a Landlock rule for a directory of the new root.
type Grant struct {
	Path   string
	Access uint64
}

// Limit is a resource limit, soft and hard.
type Limit struct {
	Resource int
	Value    uint64
}

// Descriptors of the launcher, in addition to the three standard ones.
const (
	ConfigFD  = 3
	RulesetFD = 4
	ProxyFD   = 5
	GroupFD   = 6
	ExtraFD   = 8
)

// Variable is in the environment of a launcher, and of no other process. Its value is Version, and
// for one that starts another launcher in new namespaces, a space and the flags of clone(2).
const Variable = "AGENTHOST_SANDBOX"

// Environment is in the environment of a launcher too. Without it, the Go runtime reads the limits
// of its control group, and starts threads, which a limit of processes may deny later.
var Environment = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=containermaxprocs=0"}

// Capabilities are those that a launcher has in its own namespaces: CAP_SETPCAP, CAP_NET_ADMIN and
// CAP_SYS_ADMIN.
var Capabilities = []uintptr{8, 12, 21}

// Version is the name of the format of Config.
const Version = "6"

// Append appends the encoded c to b.
func (c *Config) Append(b []byte) []byte {
	w := codec{writing: true, written: b, ok: true}
	w.config(c)
	return w.written
}

func decode(b string) (Config, bool) {
	r := codec{rest: b, ok: true}
	var c Config
	r.config(&c)
	return c, r.ok && r.rest == ""
}

// codec writes or reads values, each as a decimal length, a colon and bytes. After malformed input
// all values are zero and ok is false.
type codec struct {
	writing bool
	written []byte
	rest    string
	ok      bool
}

// config writes or reads all fields.
func (x *codec) config(c *Config) {
	x.bool(&c.Namespaces)
	x.bool(&c.First)
	x.string(&c.UserMap)
	x.string(&c.GroupMap)
	x.bool(&c.Loopback)
	x.int(&c.Groups)
	x.string(&c.Root)
	list(x, &c.Mounts, func(m *Mount) {
		x.string(&m.Kind)
		x.string(&m.Source)
		x.string(&m.Target)
	})
	list(x, &c.Limits, func(l *Limit) {
		x.int(&l.Resource)
		x.uint(&l.Value)
	})
	x.int(&c.User)
	x.bool(&c.Ruleset)
	list(x, &c.Granted, func(g *Grant) {
		x.string(&g.Path)
		x.uint(&g.Access)
	})
	x.bytes(&c.Filter)
	x.int(&c.NotifyCall)
	x.bytes(&c.Fallback)
	x.int(&c.ProxyPort)
	x.int(&c.Extra)
	x.string(&c.Path)
	x.string(&c.Dir)
	list(x, &c.Args, x.string)
	list(x, &c.Env, x.string)
}

func (x *codec) string(s *string) {
	if x.writing {
		x.written = strconv.AppendInt(x.written, int64(len(*s)), 10)
		x.written = append(x.written, ':')
		x.written = append(x.written, *s...)
		return
	}

	*s = ""
	for i := 0; x.ok && i < len(x.rest) && i < 20; i++ {
		if x.rest[i] != ':' {
			continue
		}

		n, err := strconv.Atoi(x.rest[:i])
		if err != nil || n < 0 || n > len(x.rest)-i-1 {
			break
		}

		*s = x.rest[i+1 : i+1+n]
		x.rest = x.rest[i+1+n:]
		return
	}

	x.ok = false
}

func (x *codec) bytes(b *[]byte) {
	text := string(*b)
	x.string(&text)
	*b = []byte(text)
}

func (x *codec) uint(n *uint64) {
	text := strconv.FormatUint(*n, 10)
	x.string(&text)
	var err error
	*n, err = strconv.ParseUint(text, 10, 64)
	x.ok = x.ok && err == nil
}

func (x *codec) int(n *int) {
	value := uint64(*n) // not negative
	x.uint(&value)
	*n = int(value) // written by Append
}

func (x *codec) bool(v *bool) {
	text := strconv.FormatBool(*v)
	x.string(&text)
	*v = text == "true"
}

// list writes or reads the length of a list and its elements.
func list[T any](x *codec, values *[]T, each func(*T)) {
	n := len(*values)
	x.int(&n)
	for i := 0; x.ok && i < n; i++ {
		if !x.writing {
			*values = append(*values, *new(T))
		}

		each(&(*values)[i])
	}
}
