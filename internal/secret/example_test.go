package secret_test

import (
	"fmt"

	"github.com/seed93082962/agenthost/internal/secret"
)

func Example() {
	ring, err := secret.Parse(secret.Generate())
	if err != nil {
		fmt.Println(err)
		return
	}
	place := secret.AAD("providers", "api_key_enc", "7")
	sealed := ring.Seal([]byte("sk-0123"), place)

	plain, err := ring.Open(sealed, place)
	fmt.Printf("%s %v\n", plain, err)
	_, err = ring.Open(sealed, secret.AAD("providers", "api_key_enc", "8"))
	fmt.Println(err)
	// Output:
	// sk-0123 <nil>
	// open secret: sealed value is damaged or belongs to another place
}

// A new key is put before the old one, everything is sealed anew, and then the old one can go.
func ExampleKeyring_Reseal() {
	old, fresh := secret.Generate(), secret.Generate()
	before, err := secret.Parse(old)
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed := before.Seal([]byte("sk-0123"), nil)

	both, err := secret.Parse(fresh, old)
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed, err = both.Reseal(sealed, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := both.Reseal(sealed, nil, nil)
	fmt.Println(again == nil, err)
	// Output: true <nil>
}

func ExampleParse() {
	_, err := secret.Parse("hunter2")
	fmt.Println(err)
	// Output: parse keyring: key 1 is not base64: generate one with `openssl rand -base64 32`
}
