package runtime

// Routes returns all routes, such as "GET /health", for the comparison with the OpenAPI document.
func (rt *Runtime) Routes() []string {
	var all []string
	for _, r := range rt.routes() {
		all = append(all, r.method+" "+r.path)
	}
	return all
}
