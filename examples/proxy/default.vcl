# Varnish in front of a runtime.
# Run it with: varnishd -F -n /tmp/agenthost-varnish -a 127.0.0.1:8081 -f "$PWD/default.vcl"
vcl 4.1;

backend runtime {
    .host = "127.0.0.1";
    .port = "3000";
    # A blocking run sends no byte before it ends: keep this above the limit runTimeout (30 minutes).
    .first_byte_timeout = 31m;
    .between_bytes_timeout = 60s;
}

sub vcl_recv {
    # Runs are streams and files may be large: piping forwards bytes as they arrive, in both directions, and closes the
    # upstream connection when the client disconnects. Nothing is cached: the responses of a runtime belong to the
    # holder of its key.
    return (pipe);
}

sub vcl_pipe {
    # One request for each connection, so that every request passes vcl_recv.
    set bereq.http.Connection = "close";
}
