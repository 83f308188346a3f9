# Images of the binaries in dist/, which make release builds. The default target is the hub. The
# deployer docker runs one of the others:
#
#   docker build --target runtime -t agenthost-runtime .        only the runtime
#   docker build --target runtime-tools -t agenthost-runtime .  for agents with Bash and MCP servers
FROM debian:bookworm-slim AS base
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
	&& install -d -m 700 -o 65532 -g 65532 /data

FROM scratch AS runtime
ARG TARGETARCH=amd64
COPY --from=base /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY dist/runtime-linux-${TARGETARCH} /usr/local/bin/runtime
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/runtime"]

FROM base AS runtime-tools
ARG TARGETARCH=amd64
RUN apt-get update && apt-get install -y --no-install-recommends bash git nodejs python3 ripgrep && rm -rf /var/lib/apt/lists/*
COPY dist/runtime-linux-${TARGETARCH} /usr/local/bin/runtime
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/runtime"]

FROM base AS hub
ARG TARGETARCH=amd64
COPY dist/hub-linux-${TARGETARCH} /usr/local/bin/hub
COPY dist/runtime-linux-${TARGETARCH} /usr/local/bin/runtime
USER 65532:65532
ENV HUB_ADDR=0.0.0.0:8080 HUB_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["hub"]
