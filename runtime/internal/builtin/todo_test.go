package builtin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTodoWrite(t *testing.T) {
	b := setup(t)
	require.Equal(t, "The list has 1 of 3 tasks completed.\n[x] Read\n[>] Write\n[ ] Test",
		b.ok(t, "TodoWrite", in{"todos": []in{
			{"content": "Read", "status": "completed", "activeForm": "Reading", "id": "1", "priority": "high"},
			{"content": "Write", "status": "in_progress", "id": 2},
			{"content": "Test", "status": "pending"},
		}}))
	require.Equal(t, "The list is empty now.", b.ok(t, "TodoWrite", in{"todos": []in{}}))
	require.Equal(t, "task 2 has no content",
		b.fails(t, "TodoWrite", in{"todos": []in{{"content": "a", "status": "pending"}, {"content": " ", "status": "pending"}}}))
	require.Equal(t, `task 1 has the status "done": use pending, in_progress or completed`,
		b.fails(t, "TodoWrite", in{"todos": []in{{"content": "a", "status": "done"}}}))
	require.Equal(t, "the input does not match: todos must be an array, not string", b.fails(t, "TodoWrite", in{"todos": "a"}))
	long := b.cut(t, "TodoWrite", in{"todos": []in{{"content": strings.Repeat("x", 200_000), "status": "pending"}}})
	require.LessOrEqual(t, len(long), 100_000)
}
