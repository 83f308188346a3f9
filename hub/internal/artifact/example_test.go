package artifact_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/internal/secret"
)

func Example() {
	ctx := context.Background()
	keyring, err := secret.Parse(secret.Generate())
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := artifact.New(artifact.Config{Driver: &blob.Memory{}, Keyring: keyring, PublicURL: "https://hub.example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, err := store.Put(ctx, artifact.Tools, "weather.ts", strings.NewReader("export default {name: 'weather'}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.URL(ref))

	// Later, another upload of the same content has the same reference.
	blob, err := store.Open(ctx, ref)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer blob.Close()
	content, err := io.ReadAll(blob.Content)
	fmt.Println(string(content), err)
	// Output:
	// https://hub.example.com/artifacts/tools/ce53d46e21496f2df68666bc88d5ca40f0aa91a8a55f5d3a7e3ef4c39cd79dde/weather.ts
	// export default {name: 'weather'} <nil>
}

func ExampleStore_SignedURL() {
	ctx := context.Background()
	keyring, err := secret.Parse(secret.Generate())
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store, err := artifact.New(artifact.Config{
		Driver: &blob.Memory{}, Keyring: keyring, PublicURL: "https://hub.example.com", Now: func() time.Time { return now },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, err := store.Put(ctx, artifact.Skills, "report.zip", strings.NewReader("an archive"))
	if err != nil {
		fmt.Println(err)
		return
	}
	link, expiresAt, err := store.SignedURL(ctx, ref, time.Hour)
	address, _, _ := strings.Cut(link, "&sig=")
	fmt.Println(strings.Replace(address, ref.Hash, "HASH", 1), expiresAt, err)
	// Output: https://hub.example.com/artifacts/skills/HASH/report.zip?expires=1767229200 2026-01-01 01:00:00 +0000 UTC <nil>
}
