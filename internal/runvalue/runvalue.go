// Package runvalue has values and bounds of the JSON of a runtime, whose types are in runtime/wire.
// The documents of the API state them for other clients.
package runvalue

// MaxData is the maximum size of the JSON of one event, in bytes. Longer texts are truncated.
const MaxData = 4<<20 - 1

// MaxHistory is the largest number of turns in the history of a run request.
const MaxHistory = 1000

// UsageHeader is the header of the JSON response to a run, and the trailer of a stream of events,
// with a RunUsage as JSON, if the request has "TE: trailers": a proxy counts runs without reading
// their bodies.
const UsageHeader = "X-Run-Usage"

// Bounds of the report of a run, in bytes. net/http reads no trailer that is longer than the read
// buffer of the connection, and fails then.
const (
	MaxTrailer = 4 << 10            // all trailers of a response, with their names
	MaxUsage   = MaxTrailer - 1<<10 // the value of UsageHeader
)

// Error types of a failed run. A failure of the model has its code as the error type.
const (
	ErrorTypeMaxTurns  = "error_max_turns"
	ErrorTypeExecution = "error_during_execution"
	ErrorTypeTimeout   = "timeout" // also of a model that sends nothing for too long
	ErrorTypeOutput    = "output_invalid"

	// Of an upstream; package model documents them.
	ErrorTypeConnection     = "connection"
	ErrorTypeRateLimit      = "rate_limit"
	ErrorTypeOverloaded     = "overloaded"
	ErrorTypeServer         = "server"
	ErrorTypeAuth           = "auth"
	ErrorTypePromptTooLong  = "prompt_too_long"
	ErrorTypeInvalidRequest = "invalid_request"
	ErrorTypeUnknown        = "unknown"
)

// Subtypes of Result.
const (
	ResultSuccess   = "success"
	ResultError     = "error"
	ResultMaxTurns  = ErrorTypeMaxTurns
	ResultExecution = ErrorTypeExecution
	ResultInput     = "input_required" // also the stop reason
)

// Subtypes of System.
const (
	SystemInit               = "init"
	SystemMCPStatus          = "mcp_status"
	SystemPermissionDenied   = "permission_denied"
	SystemPermissionRequired = "permission_required"
	SystemAnswered           = "answered"
	SystemCompactBoundary    = "compact_boundary"
	SystemWarning            = "warning"
)

// Types of a TranscriptEntry.
const (
	EntryMessage    = "message"    // Role and Content
	EntryEvent      = "event"      // Event
	EntryCompaction = "compaction" // Summary and Kept
)

// Roles of a Turn.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Values of Error in an ErrorBody with status 409.
const (
	RunIDConflict  = "Run ID conflict"
	SessionBusy    = "Session busy"
	UnknownSession = "Unknown session"
	SessionChanged = "Session changed"
	NotWaiting     = "Not waiting"
	CallChanged    = "Call changed"
)

// Types of a ContentPart.
const (
	PartText  = "text"
	PartImage = "image"
	PartFile  = "file"
)

// Bounds of the parts of a message, in bytes of the decoded data.
const (
	MaxParts        = 64
	MaxImages       = 8
	MaxImageBytes   = 5 << 20
	MaxImagesBytes  = 20 << 20 // of the images of a message together
	MaxFileBytes    = 10 << 20
	MaxContentBytes = 30 << 20 // of the images and files of a request together, with its history
	MaxPartName     = 255
)

// Kinds of a Pending.
const (
	InputApproval   = "approval"
	InputClientTool = "client_tool"
	InputQuestion   = "question"
)

// Values of the decision and of the action of an Answer. The event that records an answer of a
// client tool has DecisionOutput or DecisionError.
const (
	DecisionApprove = "approve"
	DecisionReject  = "reject"
	DecisionOutput  = "output"
	DecisionError   = "error"
	ActionAccept    = "accept"
	ActionDecline   = "decline"
	ActionCancel    = "cancel"
)

// Bounds of what a run waits for. The JSON of all Pending of one wait together has at most
// MaxPendingBytes, so that an event has room for them and for the text of the run.
const (
	MaxPending         = 64
	MaxPendingBytes    = 3 << 20
	MaxClientTools     = 64
	MaxClientToolBytes = 256 << 10
)

// SandboxPartial is the mode of an agent with the mode auto where the kernel creates no namespaces.
// Access to the content of files is restricted, and no internet socket exists. The modes, times and
// attributes of all files of the user, and protected paths, can be changed.
const SandboxPartial = "partial"
