package launch

import "strconv"

// Config is what the launcher of one command does, in the order of its fields. It is computed by
// the parent, which can use libraries; the launcher only executes it.
type Config struct {
	Namespaces bool   // the launcher is process 1 of its own namespaces
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

	ProxyPort int // the port on 127.0.0.1 whose listener is sent to ProxyFD; 0 for none

	Extra int // the number of descriptors, from ExtraFD, that the command has from 3

	Path string // the program, in the new root; "" for a trial without a command
	Dir  string // the working directory, in the new root
	Args []string
	Env  []string
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
var Environment = []string{"GOMAXPROCS=1", "GOGC=off"}

// Version is the name of the format of Config.
const Version = "3"

// Append appends the encoded c to b: each value as a decimal length, a colon and bytes.
func (c *Config) Append(b []byte) []byte {
	b = appendBool(b, c.Namespaces)
	b = appendString(b, c.UserMap)
	b = appendString(b, c.GroupMap)
	b = appendBool(b, c.Loopback)
	b = appendInt(b, uint64(c.Groups)) //nolint:gosec // a number
	b = appendString(b, c.Root)
	b = appendInt(b, uint64(len(c.Mounts)))
	for _, m := range c.Mounts {
		b = appendString(b, m.Kind)
		b = appendString(b, m.Source)
		b = appendString(b, m.Target)
	}
	b = appendInt(b, uint64(len(c.Limits)))
	for _, l := range c.Limits {
		b = appendInt(b, uint64(l.Resource)) //nolint:gosec // a small constant
		b = appendInt(b, l.Value)
	}
	b = appendInt(b, uint64(c.User)) //nolint:gosec // an id
	b = appendBool(b, c.Ruleset)
	b = appendInt(b, uint64(len(c.Granted)))
	for _, g := range c.Granted {
		b = appendString(b, g.Path)
		b = appendInt(b, g.Access)
	}
	b = appendString(b, string(c.Filter))
	b = appendInt(b, uint64(c.ProxyPort)) //nolint:gosec // a port
	b = appendInt(b, uint64(c.Extra))     //nolint:gosec // a number
	b = appendString(b, c.Path)
	b = appendString(b, c.Dir)
	b = appendStrings(b, c.Args)
	return appendStrings(b, c.Env)
}

func appendString(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

func appendInt(b []byte, n uint64) []byte { return appendString(b, strconv.FormatUint(n, 10)) }

func appendBool(b []byte, v bool) []byte { return appendString(b, strconv.FormatBool(v)) }

func appendStrings(b []byte, list []string) []byte {
	b = appendInt(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// decoder reads what Append has written. After malformed input all values are zero and ok is false.
type decoder struct {
	rest string
	ok   bool
}

func (d *decoder) string() string {
	for i := 0; d.ok && i < len(d.rest) && i < 20; i++ {
		if d.rest[i] != ':' {
			continue
		}
		n, err := strconv.Atoi(d.rest[:i])
		if err != nil || n < 0 || n > len(d.rest)-i-1 {
			break
		}
		s := d.rest[i+1 : i+1+n]
		d.rest = d.rest[i+1+n:]
		return s
	}
	d.ok = false
	return ""
}

func (d *decoder) int() uint64 {
	n, err := strconv.ParseUint(d.string(), 10, 64)
	d.ok = d.ok && err == nil
	return n
}

func (d *decoder) bool() bool { return d.string() == "true" }

func (d *decoder) strings() []string {
	var list []string
	for n := d.int(); d.ok && uint64(len(list)) < n; {
		list = append(list, d.string())
	}
	return list
}

func decode(b string) (c Config, ok bool) {
	d := decoder{rest: b, ok: true}
	c.Namespaces = d.bool()
	c.UserMap = d.string()
	c.GroupMap = d.string()
	c.Loopback = d.bool()
	c.Groups = int(d.int()) //nolint:gosec // written by Append
	c.Root = d.string()
	for n := d.int(); d.ok && uint64(len(c.Mounts)) < n; {
		c.Mounts = append(c.Mounts, Mount{Kind: d.string(), Source: d.string(), Target: d.string()})
	}
	for n := d.int(); d.ok && uint64(len(c.Limits)) < n; {
		c.Limits = append(c.Limits, Limit{Resource: int(d.int()), Value: d.int()}) //nolint:gosec // written by Append
	}
	c.User = int(d.int()) //nolint:gosec // written by Append
	c.Ruleset = d.bool()
	for n := d.int(); d.ok && uint64(len(c.Granted)) < n; {
		c.Granted = append(c.Granted, Grant{Path: d.string(), Access: d.int()})
	}
	c.Filter = []byte(d.string())
	c.ProxyPort = int(d.int()) //nolint:gosec // written by Append
	c.Extra = int(d.int())     //nolint:gosec // written by Append
	c.Path = d.string()
	c.Dir = d.string()
	c.Args = d.strings()
	c.Env = d.strings()
	return c, d.ok && d.rest == ""
}
