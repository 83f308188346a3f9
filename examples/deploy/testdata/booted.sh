# What systemd.sh runs in the booted system.
set -euo pipefail
base=http://127.0.0.1:8080 scratch=/run
. /test/examples/deploy/testdata/client.sh
cd /test
set -a
. /test/steps.sh
systemd-analyze verify /etc/systemd/system/agenthost-hub.service 2>&1 | { grep -v DelegateSubgroup || true; } | sed 's/^/verify: /'
systemctl daemon-reload
systemctl enable --now agenthost-hub 2>&1
ready || journalctl -u agenthost-hub --no-pager
create_admin "$(journalctl -u agenthost-hub --no-pager | sed -n 's/.*"setup_token": "\([0-9a-f]*\)".*/\1/p' | tail -1)"
echo "agent: $(deploy_agent)"
echo
chat 'before the restart'
echo "runtime: $(ps -eo pid,user:20,args | grep '[a]genthost-runtime')"
hub=$(systemctl show -p MainPID --value agenthost-hub)
grep -E '^(NoNewPrivs|CapBnd|Seccomp):' "/proc/$hub/status"
# Root in the mounts of the unit.
for dir in /etc /usr /home /var/lib/agenthost; do
	! nsenter -t "$hub" -m touch "$dir/new" 2>/dev/null || echo "writes $dir"
done
systemctl restart agenthost-hub
ready
until_true is_running
chat 'after the restart'
echo "runtime: $(ps -eo pid,user:20,args | grep '[a]genthost-runtime')"
