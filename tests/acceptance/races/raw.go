// SPDX-License-Identifier: Apache-2.0 OR MIT

// What raw.c does, by Go: a static program whose threads nobody started knowingly, and whose runtime
// interrupts its own calls with signals all the time.
//
//	raw-go list        the operations, for the ground
//	raw-go PLACE…      does each operation in PLACE/OPERATION
package main

import (
	"os"
	"sync"
	"syscall"
)

const hook = "/.git/hooks/pre-commit"

var operations = map[string]func(at string) error{
	"had-write":    func(at string) error { return os.WriteFile(at+hook, []byte("mine"), 0o755) },
	"had-truncate": func(at string) error { return os.Truncate(at+hook, 0) },
	"had-chmod":    func(at string) error { return os.Chmod(at+hook, 0o755) },
	"had-remove":   func(at string) error { return os.RemoveAll(at + "/.git") },
	"had-rename":   func(at string) error { return os.Rename(mine(at), at+hook) },
	"had-away":     func(at string) error { return os.Rename(at+"/.git/hooks", at+"/away") },
	"add-write":    func(at string) error { return os.WriteFile(at+hook, []byte("mine"), 0o755) },
	"add-rename":   func(at string) error { return os.Rename(mine(at), at+hook) },
	"add-link":     func(at string) error { return os.Link(mine(at), at+hook) },
	"add-symlink":  func(at string) error { return os.Symlink("mine", at+hook) },
	"add-mkdir":    func(at string) error { return os.MkdirAll(at+hook, 0o755) },
	"add-fifo":     func(at string) error { return syscall.Mkfifo(at+hook, 0o755) },
}

func mine(at string) string {
	os.WriteFile(at+"/mine", []byte("mine"), 0o755)
	return at + "/mine"
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "list" {
		for name := range operations {
			os.Stdout.WriteString(name + "\n")
		}
		return
	}
	var all sync.WaitGroup
	for _, place := range os.Args[1:] {
		for name, operation := range operations {
			all.Add(1)
			go func() {
				defer all.Done()
				if err := operation(place + "/" + name); err != nil {
					os.Stdout.WriteString(name + ": " + err.Error() + "\n")
				}
			}()
		}
	}
	all.Wait()
	if err := os.WriteFile("harmless", []byte("x"), 0o644); err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(3)
	}
}
