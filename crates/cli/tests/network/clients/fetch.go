// SPDX-License-Identifier: Apache-2.0 OR MIT

// Gets a URL, and knows nothing of proxies.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true}}
	got, err := client.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(os.Stdout, got.Body); err != nil {
		log.Fatal(err)
	}
}
