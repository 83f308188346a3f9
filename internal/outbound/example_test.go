package outbound_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/seed93082962/agenthost/internal/outbound"
)

func ExamplePublic() {
	client := outbound.Public(nil)
	res, err := client.Get("http://localhost:8080/admin")
	if errors.Is(err, outbound.ErrAddress) {
		fmt.Println(outbound.ErrAddress)
		return
	}
	if err == nil {
		defer res.Body.Close()
		fmt.Println(http.StatusText(res.StatusCode))
	}
	// Output: the address is private or reserved, and only public addresses are allowed
}
