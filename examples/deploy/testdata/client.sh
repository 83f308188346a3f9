# Functions of a client of the hub at $base. The files of a test are in $scratch.
call() { curl -sS --max-time 60 -H "Authorization: Bearer $(cat "$scratch/token")" -H 'Content-Type: application/json' "$@"; }

# until_true COMMAND... repeats a command for at most a minute.
until_true() {
	for _ in $(seq 300); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.2
	done
	echo "not within a minute: $*" >&2
	return 1
}

# ready waits for the hub.
ready() { until_true curl -sSf --max-time 5 "$base/health/ready"; }

# create_admin TOKEN creates the first admin.
create_admin() {
	curl -sS -H 'Content-Type: application/json' "$base/auth/setup" \
		-d '{"username": "admin", "password": "correct horse 1", "setup_token": "'"$1"'"}' |
		sed -n 's/.*"access_token":"\([^"]*\).*/\1/p' >"$scratch/token"
}

is_running() { call "$base/api/v1/admin/agents/helper/deploy" | grep '"state":"running"'; }

# deploy_agent deploys an agent that may use Bash, and prints what its runtime says of it.
deploy_agent() {
	call -d '{"name": "helper", "providerId": "demo", "model": "demo", "allowedTools": ["Bash"]}' "$base/api/v1/admin/agents" >/dev/null
	call -X POST "$base/api/v1/admin/agents/helper/deploy" >/dev/null
	until_true is_running || call "$base/api/v1/admin/agents/helper/deploy"
	key=$(call "$base/api/v1/admin/agents/helper/deploy" | sed 's/.*"apiKey":"\([^"]*\).*/\1/')
	curl -sS -H "x-api-key: $key" "$base/runtime/helper/v1/agents/helper"
}

# chat prints the answer of the agent to a message.
chat() {
	session=$(call -d '{}' "$base/api/v1/agents/helper/chat/sessions" | sed 's/.*"id":"\([^"]*\).*/\1/')
	call -N -d '{"message": "'"$1"'"}' "$base/api/v1/agents/helper/chat/sessions/$session/messages"
}
