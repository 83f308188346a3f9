package label_test

import (
	"bytes"
	"fmt"

	"github.com/seed93082962/agenthost/hub/internal/aigc/label"
)

func Example() {
	key, err := label.NewKey("2026", bytes.Repeat([]byte{7}, label.MinSecret)) // 32 random bytes in a real program
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := label.New(label.Generated, "00119144030071526726XG10000", "answer-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	l = l.Sign(key)
	fmt.Println(l.KeyID(), l.Verify(key))
	l.ProduceID = "answer-2"
	fmt.Println(l.Verify(key))
	// Output:
	// 2026 <nil>
	// signature does not match the label
}
