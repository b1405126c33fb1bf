// Command iqnode runs an application's tasks on Kafka topics with exactly-once, keeps copies of its stores, and answers
// reads of them. "iqnode --help" lists the settings; package cmd/internal/iqnode is the life of the process.
package main

import (
	"os"

	"github.com/iqgate/iqgate/cmd/internal/iqnode"
)

func main() { os.Exit(iqnode.Main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }
