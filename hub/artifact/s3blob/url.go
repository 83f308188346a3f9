package s3blob

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ParseURL parses an address such as s3://bucket/prefix?region=eu-central-1. The query may also
// have endpoint, for a server other than AWS, and virtual_host=true for one that requires the
// bucket in the host name. The region defaults to us-east-1 with an endpoint. Credentials are not
// part of the address.
func ParseURL(address string) (Config, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Fragment != "" {
		return Config{}, errors.New("it is not an address like s3://bucket/prefix?region=eu-central-1") // without the address: it may have a secret
	}
	if u.User != nil {
		return Config{}, errors.New("it must not have credentials: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, errors.New("its query cannot be parsed")
	}
	for name, values := range query {
		if name != "region" && name != "endpoint" && name != "virtual_host" || len(values) != 1 {
			return Config{}, fmt.Errorf("parameter %q: the parameters are region, endpoint and virtual_host, each once", name)
		}
	}
	cfg := Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Region: query.Get("region"), Endpoint: query.Get("endpoint")}
	switch query.Get("virtual_host") {
	case "", "false":
	case "true":
		cfg.VirtualHost = true
	default:
		return Config{}, errors.New("virtual_host is neither true nor false")
	}
	if cfg.Endpoint == "" {
		if cfg.Region == "" {
			return Config{}, errors.New("it has no region: add ?region=eu-central-1")
		}
		return cfg, nil
	}
	e, err := url.Parse(cfg.Endpoint)
	if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil || strings.Trim(e.Path, "/") != "" || e.RawQuery != "" || e.Fragment != "" {
		return Config{}, errors.New("the endpoint is not an address like https://s3.example.com")
	}
	cfg.Region = cmp.Or(cfg.Region, "us-east-1")
	return cfg, nil
}
