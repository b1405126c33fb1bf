package compare

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The plot's measures, in pixels.
const (
	plotWidth, plotLabels = 1100, 620 // of all, and of the text at its left
	plotRow, plotTop      = 26, 44
	plotRight             = 90 // for the figure behind a bar
	// plotMost is the score at which bars end: what is four times better than wanted needs no longer one.
	plotMost = 4
)

// score is how many times better a row is than wanted; 0 when it is missing.
func (r result) score() float64 {
	switch {
	case r.Missing != "" || r.Want == 0:
		return 0
	case r.judge == ratioAtLeast:
		return r.Ratio / r.Want
	case r.judge == ratioAtMost && r.Ratio > 0:
		return r.Want / r.Ratio
	case r.judge == oursAtMost && r.Ours > 0:
		return r.Want / r.Ours
	case r.judge == oursAtLeast:
		return r.Ours / r.Want
	}
	return 0
}

// plot draws how each row stands to what is wanted, as SVG: a bar that passes the line at 1 has reached it.
func plot(rows []result) string {
	height := plotTop + plotRow*len(rows) + 16
	scale := float64(plotWidth-plotLabels-plotRight) / plotMost
	one := plotLabels + scale
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14" fill="#222222">how many times better than wanted (bars end at %d)</text>`+"\n", 10, plotMost)
	for i, row := range rows {
		y := plotTop + plotRow*i
		score := row.score()
		color, label := "#2e7d32", fmt.Sprintf("%.2f", score)
		switch {
		case row.Missing != "":
			color, label = "#9e9e9e", "missing"
		case !row.OK:
			color = "#c62828"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`+"\n", plotLabels-8, y+15, html.EscapeString(shortened(row.Measure)))
		width := math.Min(score, plotMost) * scale
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", plotLabels, y+3, width, plotRow-8, color)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#222222">%s</text>`+"\n", plotLabels+width+6, y+15, label)
	}
	fmt.Fprintf(&b, `<line x1="%[1]g" y1="%[2]d" x2="%[1]g" y2="%[3]d" stroke="#222222" stroke-dasharray="4 3"/>`+"\n", one, plotTop-8, height-12)
	b.WriteString("</svg>\n")
	return b.String()
}

// shortened cuts a label that would not fit.
func shortened(text string) string {
	const most = 96
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
