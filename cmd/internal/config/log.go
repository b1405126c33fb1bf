package config

import (
	"io"
	"log/slog"
)

// Log are the settings of a program's log.
type Log struct {
	Level slog.LevelVar // may be set while the program runs
	JSON  bool
}

// Settings declares them, the same for each program; debug says what else the level debug shows, if anything.
func (l *Log) Settings(debug string) []Setting {
	return []Setting{
		Choice("log-level", "", "LEVEL", "info", []string{"debug", "info", "warn", "error"}, func(word string) error {
			return l.Level.UnmarshalText([]byte(word))
		}, "what is logged: debug"+debug+", info, warn or error"),
		Choice("log-format", "", "FORMAT", "text", []string{"text", "json"}, func(word string) error {
			l.JSON = word == "json"
			return nil
		}, "how: text or json"),
	}
}

// Logger writes to w.
func (l *Log) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: &l.Level}
	if l.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
