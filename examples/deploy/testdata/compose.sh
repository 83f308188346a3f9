#!/usr/bin/env bash
# Starts an engine and the compose file in namespaces of its own, and chats with an agent.
# Arguments: a directory with the programs hub and runtime, and an empty one.
set -euo pipefail
bin=$1 scratch=$2
here=$(cd "$(dirname "$0")/.." && pwd)
base=http://127.0.0.1:8080
. "$here/testdata/client.sh"

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs "$scratch"
ip link set lo up
dockerd --data-root "$scratch/engine" --exec-root "$scratch/exec" --pidfile "$scratch/pid" >"$scratch/engine.log" 2>&1 &
until_true docker info || { tail -20 "$scratch/engine.log" >&2; exit 1; }

# libraries PROGRAM... prints the programs with the files that they load.
libraries() { { printf '%s\n' "$@" && ldd "$@" | grep -o '/[^ :)]*'; } | sort -u; }

# The image of the hub has the configuration of the last target of the Dockerfile.
mkdir -p "$scratch/hub/usr/local/bin" "$scratch/hub/data"
cp "$bin/hub" "$bin/runtime" "$scratch/hub/usr/local/bin/"
chown 65532:65532 "$scratch/hub/data"
chmod 700 "$scratch/hub/data"
changes=(-c 'ENV PATH=/usr/local/bin')
while read -r line; do changes+=(-c "$line"); done < <(sed -n '/^FROM base AS hub/,$p' "$here/../../Dockerfile" | grep -E '^(USER|ENV|VOLUME|EXPOSE|ENTRYPOINT)')
tar c -C "$scratch/hub" . | docker import "${changes[@]}" - agenthost:latest >/dev/null
tar c -C "$scratch/hub" usr/local/bin/runtime |
	docker import -c 'USER 65532:65532' -c 'ENTRYPOINT ["/usr/local/bin/runtime"]' - agenthost-runtime:latest >/dev/null

# No registry can be reached: the image of PostgreSQL has Debian's programs and the variables of the
# official image.
postgres=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
mkdir -p "$scratch/postgres/etc" "$scratch/postgres/tmp" "$scratch/postgres/usr/bin"
for dir in bin lib lib64 sbin; do ln -s "usr/$dir" "$scratch/postgres/$dir"; done 2>/dev/null
chmod 1777 "$scratch/postgres/tmp"
echo 'postgres:x:999:999::/:/bin/bash' >"$scratch/postgres/etc/passwd"
cat >"$scratch/postgres/usr/bin/start" <<'END'
#!/bin/bash
set -e
data=/var/lib/postgresql/data
mkdir -p $data
chown 999:999 $data
as() { setpriv --reuid 999 --regid 999 --clear-groups "$@"; }
if [ ! -e $data/PG_VERSION ]; then
	cat "$POSTGRES_PASSWORD_FILE" >/tmp/password
	chown 999 /tmp/password
	as BIN/initdb -D $data -U "$POSTGRES_USER" --pwfile /tmp/password --auth scram-sha-256 --no-locale -E UTF8
	echo 'host all all all scram-sha-256' >>$data/pg_hba.conf
	echo "CREATE DATABASE $POSTGRES_DB" | as BIN/postgres --single -D $data postgres
fi
exec setpriv --reuid 999 --regid 999 --clear-groups BIN/postgres -D $data -h '*' -k /tmp
END
sed -i "s|BIN|$postgres|" "$scratch/postgres/usr/bin/start"
chmod 755 "$scratch/postgres/usr/bin/start"
lib=${postgres%/bin}/lib
libraries "$postgres"/{postgres,initdb} "$lib"/{plpgsql,dict_snowball}.so /usr/bin/{bash,sh,cat,mkdir,chown,setpriv} >"$scratch/files"
ls -d /usr/share/postgresql "$lib"/*.so /usr/share/zoneinfo >>"$scratch/files"
tar ch --absolute-names --hard-dereference -T "$scratch/files" |
	tar x -C "$scratch/postgres" --absolute-names --transform 's,^/\(lib\|lib64\|bin\)/,usr/\1/,;s,^/,,'
tar c -C "$scratch/postgres" . | docker import -c 'ENTRYPOINT ["/usr/bin/start"]' - postgres:17 >/dev/null

# The steps of the README.
mkdir "$scratch/project"
cp "$here/compose/compose.yaml" "$scratch/project/"
cd "$scratch/project"
sed -n '/^   umask/,/chown/p' "$here/compose/README.md" | sed 's/sudo //' >steps.sh
. ./steps.sh
eval "$(sed -n 's/^   \(export DOCKER_GROUP.*\)/\1/p' "$here/compose/README.md")"
docker-compose up -d 2>&1
ready || { docker-compose logs >&2; exit 1; }

create_admin "$(cat secrets/setup-token)"
echo "agent: $(deploy_agent)"
chat 'before the restart'
docker-compose restart hub 2>&1
ready
until_true is_running
chat 'after the restart'
docker ps --format '{{.Names}} {{.Image}} {{.Status}}'
call -X DELETE "$base/api/v1/admin/agents/helper/deploy"
gone() { [ -z "$(docker ps -q --filter name=agenthost-default-helper)" ]; }
until_true gone
docker-compose down 2>&1
