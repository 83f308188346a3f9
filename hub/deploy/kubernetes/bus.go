package kubernetes

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Bus is a NATS server with a bucket that all deployments share. Each one has a scope in it.
type Bus struct {
	// URL has the form of runtime/run/natsbus, with a bucket and without a scope and a query. It may
	// have a password. Required.
	URL string

	// Servers are the addresses in URL, as host:port. Runtimes reach them if they are IP addresses
	// outside of the cluster, or pods with the label agenthost.dev/bus.
	Servers []string

	// Files has the content of files by the parameter of the query that names the file, such as
	// credentials and ca. Defaults to none.
	Files map[string][]byte

	// Credentials returns the content of a credentials file for a scope, which permits no writes to
	// others. Each start of a revision has its own. Without it, all deployments have one user, and a
	// runtime that misuses the user can cancel the runs of others. Defaults to none.
	Credentials func(scope string) ([]byte, error)
}

// files returns the content of the files of a deployment by their parameters.
func (b *Bus) files(ref deploy.Ref) (map[string][]byte, error) {
	if b.Credentials == nil {
		return b.Files, nil
	}

	content, err := b.Credentials(commonName(ref))
	if err != nil {
		return nil, err
	}

	all := maps.Clone(b.Files)
	if all == nil {
		all = map[string][]byte{}
	}

	all["credentials"] = content
	return all, nil
}

// busFile returns the name in the Secret of a file of the bus.
func busFile(parameter string) string { return "bus-" + parameter }

// url returns the URL of the bus for the pods of a deployment.
func (b *Bus) url(ref deploy.Ref, files map[string][]byte) agent.Secret {
	text := b.URL + "/" + commonName(ref)
	query := url.Values{}
	for parameter := range files {
		query.Set(parameter, privateDir+"/"+busFile(parameter))
	}

	if len(query) > 0 {
		text += "?" + query.Encode()
	}

	return agent.Secret(text)
}

// egress returns the rules of a NetworkPolicy that permit connections to servers. A policy has no
// host names: servers in the cluster are found by their label, with the port of the address.
func egress(label string, servers []string) (rules []any) {
	for _, address := range servers {
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}

		port, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}

		to := labelled(label)
		if addr, err := netip.ParseAddr(host); err == nil {
			to = []any{fields{"ipBlock": fields{"cidr": netip.PrefixFrom(addr, addr.BitLen()).String()}}}
		}

		rules = append(rules, fields{"to": to, "ports": []any{fields{"protocol": "TCP", "port": port}}})
	}

	return rules
}

// labelled selects the pods of the namespace, and all pods of the namespaces, with a label.
func labelled(label string) []any {
	with := fields{"matchLabels": fields{label: "true"}}
	return []any{fields{"podSelector": with}, fields{"namespaceSelector": with}}
}
