package modeltest_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// In a test, [modeltest.Start] does what is done with httptest here.
func ExampleNew() {
	up := modeltest.New(modeltest.OpenAI,
		modeltest.Stream(modeltest.Text("Hello, ", "world.")),
		modeltest.Status(http.StatusTooManyRequests, "Retry-After", "7"),
	)
	srv := httptest.NewServer(up)
	defer srv.Close()

	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`
	for range 2 {
		res, err := http.Post(srv.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		fmt.Println(res.Status)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if _, delta, ok := strings.Cut(lines.Text(), `"delta":`); ok {
				fmt.Println(delta)
			}
		}
		res.Body.Close()
	}
	// Output:
	// 200 OK
	// {"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}
	// {"content":"Hello, "},"logprobs":null,"finish_reason":null}]}
	// {"content":"world."},"logprobs":null,"finish_reason":null}]}
	// {},"logprobs":null,"finish_reason":"stop"}]}
	// 429 Too Many Requests
}
