package audit

// InTurn wraps the verification.
var InTurn = inTurn
