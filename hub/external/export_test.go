package external

// IsEndpoint is exported for tests, which cannot serve https with a certificate that the hub trusts.
var IsEndpoint = isEndpoint
