package chaos_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// namespaceVariable is set in a test that runs in a network namespace of its own. Its value is the
// directory of the programs.
const namespaceVariable = "CHAOS_NAMESPACE"

// inNamespace reports whether the test runs in a network namespace of its own, in which it may
// damage any packet. Otherwise, it runs the test in one.
func inNamespace(t *testing.T) bool {
	if os.Getenv(namespaceVariable) != "" {
		tool(t, "ip", "link", "set", "lo", "up")
		return true
	}
	cmd := exec.Command(must(os.Executable()), "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), namespaceVariable+"="+binaries)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- PASS") && line != "PASS" {
			fmt.Println(line)
		}
	}
	require.NoError(t, cmd.Wait())
	return false
}

// tool runs a program that changes or shows the network of the namespace.
func tool(t *testing.T, name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// link is one kind of connection of an installation. Its packets pass a chain of iptables.
type link struct{ name, chain string }

// links returns the links of an installation. The runtimes choose their ports: their link has the
// packets of all ports that are of no other one.
func (in *installation) links(t *testing.T) (all []link) {
	add := func(name string, ports ...string) {
		l := link{name: name, chain: "chaos" + fmt.Sprint(len(all))}
		all = append(all, l)
		tool(t, "iptables", "-N", l.chain)
		for _, port := range ports {
			for _, side := range []string{"--sport", "--dport"} {
				tool(t, "iptables", "-A", "OUTPUT", "-p", "tcp", side, port, "-g", l.chain)
			}
		}
		if len(ports) == 0 {
			tool(t, "iptables", "-A", "OUTPUT", "-p", "tcp", "-g", l.chain)
		}
	}
	port := func(address string) string {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
		require.NoError(t, err)
		return port
	}
	var hubs []string
	for _, url := range in.urls {
		hubs = append(hubs, port(url))
	}
	add("client and hub", hubs...)
	add("hub and PostgreSQL", in.postgresPort)
	add("hub and S3", port(in.storageAddress))
	add("runtime and upstream", port(in.upstream.URL))
	add("hub and runtime")
	return all
}

// damage is what happens to the packets of a link. The arguments are of a rule of iptables.
type damage struct {
	name   string
	length time.Duration
	rule   []string
}

// A reset is sent to one side, and the other one gets it with its next packet.
var damages = []damage{
	{"5 % of packets are lost", 4 * time.Second, []string{"-m", "statistic", "--mode", "random", "--probability", "0.05", "-j", "DROP"}},
	{"2 % of packets reset", 4 * time.Second, []string{"-p", "tcp", "-m", "statistic", "--mode", "random", "--probability", "0.02", "-j", "REJECT", "--reject-with", "tcp-reset"}},
	{"silence", 3 * time.Second, []string{"-j", "DROP"}},
}

// inflict damages a link for a time, and longer if no packet was damaged until then. It returns the
// number of packets.
func (d damage) inflict(t *testing.T, l link) (packets int) {
	tool(t, "iptables", slices.Concat([]string{"-A", l.chain}, d.rule)...)
	<-time.After(d.length)
	require.NoError(t, eventually(t.Context(), patience, func(context.Context) (err error) {
		lines := strings.Split(strings.TrimSpace(tool(t, "iptables", "-L", l.chain, "-nvx")), "\n")
		packets, err = strconv.Atoi(strings.Fields(lines[len(lines)-1])[0])
		if err == nil && packets == 0 {
			err = fmt.Errorf("no packet of %s had %s", l.name, d.name)
		}
		return err
	}))
	tool(t, "iptables", "-F", l.chain)
	return packets
}

// Whatever connection loses packets, is reset or is silent, nothing that was acknowledged is lost,
// no response is an internal error, and everything continues without a restart.
func TestDamagedConnections(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	in := newInstallation(t, 2, true)
	c := in.setUp(t)
	links := in.links(t)
	for _, d := range damages {
		for _, l := range links {
			// Each damage has the whole load: a request whose connection is lost may last until its
			// end.
			ctx, stop := context.WithCancel(t.Context())
			running := load(ctx, c)
			<-time.After(time.Second)
			packets := d.inflict(t, l)
			begin := time.Now()
			var took time.Duration
			require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) (err error) {
				took, err = in.probe(ctx, c)
				return err
			}), "%s: %s: %s", l.name, d.name, in.logs())
			outage := time.Since(begin) - took
			stop()
			running.Wait()
			fmt.Printf("%-20s  %-24s  %5d packets  out of service for %v after it, and the last request of it ended after %v\n", l.name, d.name, packets,
				outage.Round(time.Millisecond), time.Since(begin).Round(100*time.Millisecond))
		}
	}
	k := &checker{in: in, c: c}
	findings := k.check(t.Context())
	report(c.journal, nil)
	require.Empty(t, findings, in.logs())
	in.remove(t, k)
}
