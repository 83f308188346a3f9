module github.com/seed93082962/agenthost/tools/interop

go 1.26.0

require github.com/stretchr/testify v1.12.1

require github.com/coder/websocket v1.8.15 // indirect

require (
	github.com/JohannesKaufmann/dom v0.3.1 // indirect
	github.com/JohannesKaufmann/html-to-markdown/v2 v2.5.2 // indirect
	github.com/bmatcuk/doublestar/v4 v4.10.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/chromedp/chromedp v0.22.0
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/julienschmidt/httprouter v1.3.0 // indirect
	github.com/modelcontextprotocol/go-sdk v1.8.0 // indirect
	github.com/seed93082962/agenthost v0.1.0
	github.com/seed93082962/agenthost/internal v0.1.0
	github.com/seed93082962/agenthost/internal/leaf v0.1.0 // indirect
	github.com/seed93082962/agenthost/runtime v0.1.0
	github.com/seed93082962/agenthost/runtime/tool/mcp v0.1.0
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/seed93082962/agenthost => ../..

replace github.com/seed93082962/agenthost/internal => ../../internal

replace github.com/seed93082962/agenthost/internal/leaf => ../../internal/leaf

replace github.com/seed93082962/agenthost/runtime => ../../runtime

replace github.com/seed93082962/agenthost/runtime/tool/mcp => ../../runtime/tool/mcp
