package store

import (
	"fmt"
	"log/slog"
	"strings"
)

// badgerLog hands Badger's messages to slog. What Badger calls information is about its own insides: debug here.
type badgerLog struct{ *slog.Logger }

// Errorf implements badger.Logger.
func (l badgerLog) Errorf(format string, args ...any) {
	l.Error("badger", text(format, args))
}

// Warningf implements badger.Logger.
func (l badgerLog) Warningf(format string, args ...any) {
	l.Warn("badger", text(format, args))
}

// Infof implements badger.Logger.
func (l badgerLog) Infof(format string, args ...any) {
	l.Debug("badger", text(format, args))
}

// Debugf implements badger.Logger; these are several for each write.
func (badgerLog) Debugf(string, ...any) {}

func text(format string, args []any) slog.Attr {
	return slog.String("text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}
