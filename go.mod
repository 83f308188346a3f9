module github.com/seed93082962/agenthost

go 1.26.0

require github.com/seed93082962/agenthost/internal/leaf v0.1.0
