package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// units of sizes, the largest first.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

var errSize = errors.New("must be a size such as 65536, 64KiB or 16MiB")

// parseSize reads a number of bytes: 65536, 64KiB, 1.5 GB.
func parseSize(text string) (int64, error) {
	number, factor := text, int64(1)
	for _, u := range units {
		if head, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = strings.TrimSpace(head), u.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n != 0 && (n*factor)/n != factor {
			return 0, errRange
		}
		return n * factor, nil
	} else if errors.Is(err, strconv.ErrRange) {
		return 0, errRange
	}
	f, err := strconv.ParseFloat(number, 64)
	f *= float64(factor)
	switch {
	case err != nil || strings.ContainsAny(number, "xXpP_nN") || f != math.Trunc(f): // no hexadecimal, no NaN, no part of a byte
		return 0, errSize
	case math.Abs(f) >= math.MaxInt64:
		return 0, errRange
	}
	return int64(f), nil
}

// formatSize writes a number of bytes in the largest binary unit that divides it.
func formatSize(n int64) string {
	for _, u := range units[:4] {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
