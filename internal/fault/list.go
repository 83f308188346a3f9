package fault

import "net/http"

const probe = "agenthost providers probe PROVIDER"

// faults is the list, in the order of the document.
var faults = []Fault{
	{Hub, "invalid_request", http.StatusBadRequest, "The request cannot be parsed", "send what openapi.yaml describes"},
	{Hub, "validation_failed", http.StatusBadRequest, "Some fields are invalid", "see data.fields"},

	{Hub, "unauthenticated", http.StatusUnauthorized, "The request has no valid token", "sign in, and send the access token as \"Authorization: Bearer TOKEN\""},
	{Hub, "token_expired", http.StatusUnauthorized, "The token has expired", "refresh it, or sign in again"},
	{Hub, "token_revoked", http.StatusUnauthorized, "The token was revoked", "sign in again"},
	{Hub, "invalid_credentials", http.StatusUnauthorized, "The username or the password is incorrect", "try again, or ask an administrator for a new password"},
	{Hub, "refresh_reused", http.StatusUnauthorized, "The refresh token was used before", "use the newest one, or sign in again"},

	{Hub, "forbidden", http.StatusForbidden, "Your role does not allow this", "ask an administrator"},
	{Hub, "account_disabled", http.StatusForbidden, "The account is disabled", "ask an administrator"},
	{Hub, "builtin_readonly", http.StatusForbidden, "Built-in objects cannot be changed", "create your own"},
	{Hub, "password_change_required", http.StatusForbidden, "The password was set by an admin", "change it first"},

	{Hub, "not_found", http.StatusNotFound, "The path does not exist", "check its names, which you may not have access to"},
	{Hub, "invite_invalid", http.StatusNotFound, "The invitation is not valid or no longer valid", "ask for a new one"},

	{Hub, "conflict", http.StatusConflict, "The request conflicts with the current state", "read it again"},
	{Hub, "name_taken", http.StatusConflict, "The name is taken", "choose another"},
	{Hub, "already_initialized", http.StatusConflict, "The hub is set up already", "sign in"},
	{Hub, "tool_in_use", http.StatusConflict, "Agents use this tool", "remove it from the agents in data.agents first"},
	{Hub, "in_use", http.StatusConflict, "Agents use this", "remove it from the agents in data.agents first"},
	{Hub, "default_tenant_in_use", http.StatusConflict, "This is the default organization, and others exist", "make another one the default first"},
	{Hub, "last_admin", http.StatusConflict, "This is the last active administrator", "make another user administrator first"},
	{Hub, "agent_not_deployed", http.StatusConflict, "The agent is not deployed", "deploy it first"},
	{Hub, "agent_deployed", http.StatusConflict, "The agent is deployed", "delete the deployment first"},
	{Hub, "deployment_key_taken", http.StatusConflict, "Another agent has this deployment key", "choose another name"},

	{Hub, "method_not_allowed", http.StatusMethodNotAllowed, "The path does not support the method", "see the Allow header"},
	{Hub, "precondition_failed", http.StatusPreconditionFailed, "The object was changed", "read it again, and send the new version in If-Match"},
	{Hub, "payload_too_large", http.StatusRequestEntityTooLarge, "The body is too large", "send less"},
	{Hub, "unsupported_media", http.StatusUnsupportedMediaType, "The body must be JSON", "send \"Content-Type: application/json\""},
	{Hub, "artifact_invalid", http.StatusUnprocessableEntity, "The file cannot be used", "repair what the message names, and upload it again"},
	{Hub, "rate_limited", http.StatusTooManyRequests, "Too many requests", "wait for the time in Retry-After"},

	{Hub, "internal_error", http.StatusInternalServerError, "An internal error occurred", "the log of the hub has its cause, with this requestId"},
	{Hub, "upstream_failed", http.StatusBadGateway, "The service behind the hub failed", "try again"},
	{Hub, "gateway_failed", http.StatusBadGateway, "The gateway failed", "try again"},
	{Hub, "deployer_unavailable", http.StatusServiceUnavailable, "The deployer cannot be reached", "try again"},
	{Hub, "unavailable", http.StatusServiceUnavailable, "The hub is unavailable", "try again"},

	{Origin: Answer, Code: "auth", Cause: "The provider PROVIDER rejected its key", Remedy: "a maintainer can replace it, in the console or with agenthost providers set PROVIDER --key"},
	{Origin: Answer, Code: "rate_limit", Cause: "The provider PROVIDER accepts no more requests of this account for now", Remedy: "send the message again later"},
	{Origin: Answer, Code: "overloaded", Cause: "The provider PROVIDER or the runtime of the agent has too much work", Remedy: "send the message again later"},
	{Origin: Answer, Code: "server", Cause: "The provider PROVIDER failed", Remedy: "send the message again; if it fails again, a maintainer can test the provider: " + probe},
	{Origin: Answer, Code: "connection", Cause: "The provider PROVIDER did not respond", Remedy: "a maintainer can test it: " + probe},
	{Origin: Answer, Code: "timeout", Cause: "The provider PROVIDER sent nothing for too long, or the run took too long", Remedy: "a maintainer can test the provider: " + probe},
	{Origin: Answer, Code: "prompt_too_long", Cause: "The conversation is too long for the model MODEL", Remedy: "begin a new chat; a maintainer can set contextWindow of the agent"},
	{Origin: Answer, Code: "invalid_request", Cause: "The provider PROVIDER rejected the request", Remedy: "a maintainer can test whether it has the model MODEL: " + probe},
	{Origin: Answer, Code: "unknown", Cause: "The provider PROVIDER sent an unknown error", Remedy: "a maintainer can test it: " + probe},
	{Origin: Answer, Code: "error_max_turns", Cause: "The agent used all its turns", Remedy: "send a message to continue; a maintainer can raise maxTurns of the agent"},
	{Origin: Answer, Code: "error_during_execution", Cause: "The runtime of the agent failed", Remedy: "a maintainer can read its log: agenthost logs AGENT"},

	{Origin: Answer, Code: "upstream_failed", Cause: "The runtime of the agent failed or did not respond", Remedy: "look at its deployment: agenthost status AGENT"},
	{Origin: Answer, Code: "unavailable", Cause: "The hub could not complete the answer", Remedy: "send the message again later"},
	{Origin: Answer, Code: "conflict", Cause: "The former answer of the chat is still ending", Remedy: "send the message again"},
	{Origin: Answer, Code: "payload_too_large", Cause: "The message is too long for the agent", Remedy: "send a shorter one"},

	{Runtime, "Invalid request", http.StatusBadRequest, "The request is not as openapi.yaml of the runtime describes", "correct what the error names"},
	{Runtime, "Invalid runId format", http.StatusBadRequest, "runId is not a UUID", "send a UUID, or none"},
	{Runtime, "Unauthorized", http.StatusUnauthorized, "The key of the runtime is missing or incorrect", "send it in the header x-api-key"},
	{Runtime, "Forbidden", http.StatusForbidden, "A page of another origin, or a host name that is not loopback, called a runtime without a key", "set AGENT_HTTP_API_KEY, and send the key"},
	{Runtime, "Not found", http.StatusNotFound, "The path does not exist", "see openapi.yaml of the runtime"},
	{Runtime, "Agent not found", http.StatusNotFound, "The runtime has no agent with this id", "GET /v1/agents lists the ids"},
	{Runtime, "Run not found", http.StatusNotFound, "The run is unknown, or ended more than five minutes ago", "start another run"},
	{Runtime, "Session not found", http.StatusNotFound, "The session is unknown or was deleted", "start another session"},
	{Runtime, "Method not allowed", http.StatusMethodNotAllowed, "The path does not support the method", "see the Allow header"},
	{Runtime, "Not acceptable", http.StatusNotAcceptable, "The runtime has no response of the type in Accept", "accept text/event-stream or application/json"},
	{Runtime, "Run ID conflict", http.StatusConflict, "Another run has this runId", "choose another, or send none"},
	{Runtime, "Session busy", http.StatusConflict, "Another run of this session is in progress", "wait for its end, or cancel it"},
	{Runtime, "Unknown session", http.StatusConflict, "The runtime has no session with this id, and requireSession is set", "send the history with a new session"},
	{Runtime, "Request body too large", http.StatusRequestEntityTooLarge, "The body is larger than maxMessageBytes", "send less, or raise limits.maxMessageBytes"},
	{Runtime, "Internal error", http.StatusInternalServerError, "The runtime failed", "its log has the cause, with this requestId"},
	{Runtime, "Agent unavailable", http.StatusServiceUnavailable, "The configuration of the agent cannot be used", "runtime --check and the log name the fault"},
	{Runtime, "Too many runs", http.StatusServiceUnavailable, "The runs in progress have reached maxConcurrentRuns", "wait for the time in Retry-After, or raise limits.maxConcurrentRuns"},
	{Runtime, "Out of memory", http.StatusServiceUnavailable, "The requests and runs together have reached maxMemoryBytes", "wait for the time in Retry-After, or raise limits.maxMemoryBytes"},
	{Runtime, "Disk full", http.StatusServiceUnavailable, "The disk of the runtime is full", "free space below its state directory"},
	{Runtime, "Replicas unavailable", http.StatusServiceUnavailable, "The other replicas of the runtime cannot be reached", "start the message bus, and try again"},
	{Runtime, "Draining", http.StatusServiceUnavailable, "The runtime stops", "try again: another one takes its place"},

	{Runtime, "Invalid path", http.StatusBadRequest, "The path is absolute, has .. or leads out of the working directory", "send a path below the working directory"},
	{Runtime, "Invalid depth parameter", http.StatusBadRequest, "depth is not an integer of 0 or more", "correct it"},
	{Runtime, "Not a directory", http.StatusBadRequest, "The path is a file", "GET /v1/files/content returns files"},
	{Runtime, "Not a file", http.StatusBadRequest, "The path is a directory, a device or empty", "GET /v1/files lists directories"},
	{Runtime, "Directory not found", http.StatusNotFound, "The directory does not exist", "list the one above it"},
	{Runtime, "File not found", http.StatusNotFound, "The file does not exist or cannot be read", "list its directory"},
	{Runtime, "Precondition failed", http.StatusPreconditionFailed, "The file was changed", "read it again"},
	{Runtime, "Range not satisfiable", http.StatusRequestedRangeNotSatisfiable, "The range begins after the end of the file", "Content-Range has the size of the file"},

	{Origin: Deployment, Code: "applied", Cause: "The deployer does not have the request", Remedy: "the hub tries again; the message has the fault of the deployer"},
	{Origin: Deployment, Code: "ready", Cause: "The runtime of the agent does not run, or the agent is unavailable in it", Remedy: "read its log: agenthost logs AGENT"},
	{Origin: Deployment, Code: "Progressing", Cause: "The last revision did not become ready", Remedy: "correct what the message names and deploy again, or return to the former one: agenthost rollback AGENT"},
	{Origin: Deployment, Code: "Routed", Cause: "The gateway could not be changed", Remedy: "the hub tries again; the message has the fault of the gateway"},
	{Origin: Deployment, Code: "McpServersReady", Cause: "MCP servers of the agent are not connected, and their tools are missing", Remedy: "correct what the message names"},
	{Origin: Deployment, Code: "restored", Cause: "The deployment was changed after the backup was made", Remedy: "deploy the agent, or delete its deployment"},
}
