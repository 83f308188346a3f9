package doctor

// Judge returns the results for free bytes.
var Judge = judge
