// Command http uses net/http, whose size every client of a model includes.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	resp, err := http.Post(os.Args[1], "application/json", strings.NewReader("{}")) // the address is the user's own, and so is an interrupt
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
}
