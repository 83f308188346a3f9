module github.com/seed93082962/agenthost/auditlog/auditlogtest

go 1.26.0

require (
	github.com/seed93082962/agenthost v0.1.0
	github.com/stretchr/testify v1.12.1
	pgregory.net/rapid v1.3.0
)

require (
	github.com/seed93082962/agenthost/internal/leaf v0.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
