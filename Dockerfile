# The hub with the process deployer. make release builds it from the binaries in dist/.
FROM debian:bookworm-slim
ARG TARGETARCH=amd64
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
	&& install -d -m 700 -o 65532 -g 65532 /data
COPY --chmod=755 dist/hub-linux-${TARGETARCH} /usr/local/bin/hub
COPY --chmod=755 dist/runtime-linux-${TARGETARCH} /usr/local/bin/runtime
USER 65532:65532
ENV HUB_ADDR=0.0.0.0:8080 HUB_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["hub"]
