module github.com/seed93082962/agenthost/tools

go 1.26.0

tool (
	golang.org/x/perf/cmd/benchstat
	golang.org/x/vuln/cmd/govulncheck
)

require (
	codeberg.org/polyfloyd/go-errorlint v1.9.0
	github.com/bombsimon/wsl/v5 v5.9.0
	github.com/gordonklaus/ineffassign v0.2.0
	github.com/gostaticanalysis/nilerr v0.1.2
	github.com/kisielk/errcheck v1.30.0
	github.com/ryanrolds/sqlclosecheck v0.6.0
	github.com/timakin/bodyclose v0.0.0-20260723120731-857993a2939c
	golang.org/x/tools v0.52.0
	honnef.co/go/tools v0.8.2
)

require (
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/gostaticanalysis/analysisutil v0.7.1 // indirect
	github.com/gostaticanalysis/comment v1.5.0 // indirect
	github.com/gostaticanalysis/testutil v0.5.0 // indirect
	github.com/hashicorp/go-version v1.9.0 // indirect
	golang.org/x/exp/typeparams v0.0.0-20260811152304-ee035b5b010f // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/telemetry v0.0.0-20261009151841-97e8ea77aa2a // indirect
	golang.org/x/vuln v1.8.0 // indirect
)
