# Varnish in front of a runtime or a hub. Varnish sends the address of the client in X-Forwarded-For by itself.
# A blocking run sends no byte before it ends: keep pipe_timeout above the limit runTimeout (30 minutes, here in seconds).
# Run it with: varnishd -F -n /tmp/agenthost-varnish -a 127.0.0.1:8081 -p pipe_timeout=1860 -f "$PWD/default.vcl"
vcl 4.1;

backend agenthost {
    .host = "127.0.0.1";
    .port = "3000";
}

sub vcl_recv {
    # Runs are streams and files may be large: piping forwards bytes as they arrive, in both directions, and closes the
    # upstream connection when the client disconnects. Nothing is cached: the responses belong to the holder of a key
    # or a token.
    return (pipe);
}

sub vcl_pipe {
    # One request for each connection, so that every request passes vcl_recv.
    set bereq.http.Connection = "close";
}
