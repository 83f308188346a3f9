module github.com/seed93082962/agenthost/tools/soak

go 1.26.0

require (
	github.com/getkin/kin-openapi v0.152.0
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/jackc/pgx/v5 v5.12.0
	github.com/nats-io/nats-server/v2 v2.15.2
	github.com/stretchr/testify v1.12.1
)

require github.com/nats-io/nats.go v1.55.0 // indirect

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/go-openapi/jsonpointer v1.0.1 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/seed93082962/agenthost v0.1.0
	github.com/seed93082962/agenthost/internal v0.1.0
	github.com/seed93082962/agenthost/internal/db v0.1.0
	github.com/seed93082962/agenthost/internal/leaf v0.1.0 // indirect
	github.com/seed93082962/agenthost/runtime v0.1.0
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/seed93082962/agenthost => ../..

replace github.com/seed93082962/agenthost/internal => ../../internal

replace github.com/seed93082962/agenthost/internal/db => ../../internal/db

replace github.com/seed93082962/agenthost/internal/leaf => ../../internal/leaf

replace github.com/seed93082962/agenthost/runtime => ../../runtime
