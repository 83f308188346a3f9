package artifact

// routePrefix is where the hub serves files.
const routePrefix = "/artifacts"
