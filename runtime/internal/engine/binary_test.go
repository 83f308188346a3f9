package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

var paper = model.Block{Type: model.BlockFile, Name: "paper.pdf", PDF: []byte("%PDF-1.7\n")}

// A summary replaces older messages with their images and files, except those of the current
// message.
func TestASummaryKeepsTheFilesOfTheMessage(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("A page."), modeltest.Usage(model.Usage{InputTokens: 3000, OutputTokens: 20})),
		modeltest.Stream(modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`), modeltest.Usage(model.Usage{InputTokens: 9000, OutputTokens: 20})),
		modeltest.Stream(modeltest.Text("A summary."), modeltest.Usage(model.Usage{InputTokens: 3000, OutputTokens: 9})),
		modeltest.Stream(modeltest.Text("Fine."), modeltest.Usage(model.Usage{InputTokens: 3000, OutputTokens: 5})),
	)
	s := newSetup(m, greet(true))
	s.ContextWindow = 10_000
	photo := picture(t, 1, 1, 0)
	s.input.Message, s.input.Content = "", []model.Block{{Type: model.BlockImage, Name: "photo.png", Images: []model.Image{{MediaType: "image/png", Data: photo.Data}}}}
	first := s.run(t.Context(), t, "")
	require.NoError(t, first.err)
	s.input.Message, s.input.Content = "Compare.", []model.Block{paper}
	got := s.run(t.Context(), t, first.session)
	require.NoError(t, got.err)
	require.Contains(t, got.lines, "system compact_boundary ")
	require.Len(t, up.Requests(), 4)
	for i, want := range []struct{ images, files int }{{1, 0}, {1, 1}, {1, 1}, {0, 1}} {
		body := string(up.Requests()[i].Body)
		require.Equal(t, want.images, strings.Count(body, `"type":"image"`), "request %d", i)
		require.Equal(t, want.files, strings.Count(body, `"type":"document"`), "request %d", i)
	}
	require.Contains(t, asked(t, up.Requests()[3]), "This is a summary of the conversation so far:")
	require.Contains(t, string(up.Requests()[3].Body), `The current request:\n\nCompare.`)
}

// The images and files of former messages are left out of a conversation that is too long, and
// those of the message are not.
func TestFilesOfAConversationThatIsTooLong(t *testing.T) {
	m, up := sizeLimited(t, modeltest.Anthropic, 20_000, textReply)
	s := newSetup(m)
	large := paper
	large.Name, large.PDF = "large.pdf", append([]byte("%PDF-1.7\n"), make([]byte, 12_000)...)
	s.input.Content = []model.Block{large}
	first := s.run(t.Context(), t, "")
	require.NoError(t, first.err)
	again := s.run(t.Context(), t, first.session)
	require.NoError(t, again.err)
	body := string(last(up).Body)
	require.Equal(t, 1, strings.Count(body, `"type":"document"`), "two have more than 20,000 bytes")

	s.input.Content[0].PDF = append(large.PDF, make([]byte, 12_000)...)
	require.ErrorContains(t, s.run(t.Context(), t, "").err, "prompt_too_long")
}

// Tokens that upstream does not count are estimated, also those of images and files.
func TestTokensOfFilesAreEstimated(t *testing.T) {
	tokens := func(content ...model.Block) int64 {
		m, _ := upstream(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("Fine."), modeltest.Drop()))
		s := newSetup(m)
		s.input.Content = content
		got := s.run(t.Context(), t, "")
		require.Error(t, got.err)
		require.True(t, got.outcome.Usage.Estimated)
		return got.outcome.Usage.InputTokens
	}
	image := model.Block{Type: model.BlockImage, Images: []model.Image{{MediaType: "image/png", Data: picture(t, 1, 1, 0).Data}}}
	large := model.Block{Type: model.BlockFile, PDF: append([]byte("%PDF-"), make([]byte, 300<<10)...)}
	base := tokens(paper)
	require.Equal(t, base+1600, tokens(paper, image))
	require.Equal(t, base+8000, tokens(paper, large))
}
