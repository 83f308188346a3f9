package runtime

// Routes returns all routes, such as "GET /health", for the comparison with the OpenAPI document.
func (rt *Runtime) Routes() []string {
	var all []string
	for _, r := range rt.routes() {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

// Reserved returns the bytes that the active runs have reserved.
func (rt *Runtime) Reserved() int64 { return rt.reserved.Load() }

// LimitContent bounds the images and files of a conversation, in bytes.
func LimitContent(c *Config, most int) { c.maxContent = most }
