package agentvalue

// Unusable is a fault of an agent's own configuration: another start of its runtime has it too.
type Unusable string

func (u Unusable) Error() string { return string(u) }

// UnusableMessage is what the runtime of a deployment logs before it ends with such a fault. The
// hub makes fewer attempts then.
const UnusableMessage = "the configuration of the agent cannot be used"
