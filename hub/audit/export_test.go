package audit

// OneAtATime wraps the verification.
var OneAtATime = oneAtATime
