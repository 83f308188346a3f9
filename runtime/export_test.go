package runtime

// Routes lists what the router knows, as "GET /health", for the test that holds the OpenAPI document against it.
func (rt *Runtime) Routes() []string {
	var all []string
	for _, r := range rt.routes() {
		all = append(all, r.method+" "+r.path)
	}
	return all
}
