// SPDX-License-Identifier: Apache-2.0 OR MIT
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func one(number int) {
	name, moved := fmt.Sprintf("d%d/%d", number%16, number), fmt.Sprintf("d%d/m%d", number%7, number)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	must(err)
	_, err = file.WriteString(strconv.Itoa(number))
	must(err)
	must(file.Close())
	must(os.Chmod(name, 0o640))
	must(os.Rename(name, moved))
	text, err := os.ReadFile(moved)
	must(err)
	if string(text) != strconv.Itoa(number) {
		panic(moved)
	}
	if number%2 == 1 {
		must(os.Remove(moved))
	}
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	must(err)
	for number := range 16 {
		must(os.Mkdir(fmt.Sprintf("d%d", number), 0o777))
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := int(next.Add(1)) - 1; number < count; number = int(next.Add(1)) - 1 {
				one(number)
			}
		}()
	}
	all.Wait()
}
