module github.com/seed93082962/agenthost/internal/leaf

go 1.26.0
