// Package config gives a program its settings. Each is declared once, as a [Setting]: its flag, its environment variable, its
// line in the YAML file, its help, its place in the JSON schema and in docs/config.md all come from that declaration.
//
//   - setting.go has the kinds of settings and reads their values; size.go is the kind for bytes.
//   - program.go takes the values from flags, else the environment, else the file, else the defaults, and reports all that is
//     wrong with them at once; args.go reads the command line, file.go the file.
//   - print.go is what a program tells of its settings: help, and each value with where it came from; schema.go and
//     markdown.go describe them for editors and readers.
//
// A secret has no flag and no place in the file: every process of a machine can read a command line, and files of settings are
// shown around. It comes from the environment, or from a file of its own that a setting names. Nothing here prints it.
package config

//go:generate go run ./configdoc ../../../docs
