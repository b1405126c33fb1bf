package dashboard

import (
	"reflect"
	"testing"
	"time"
)

// TestRatesAreThoseOfTheLastSeconds: the course has a point for each second, and the figures hold still in between.
func TestRatesAreThoseOfTheLastSeconds(t *testing.T) {
	var c readCourse
	counts := Counts{Active: 1000, Refused: map[string]int64{"STALE": 7}}
	first := c.observe(counts, epoch)
	if !first.Known || first.Rates != nil || first.Total != 1007 || first.Refusals != 7 || len(first.Course) != 0 {
		t.Errorf("at first: %+v", first)
	}
	counts = Counts{Active: 1060, Copies: 40, Stale: 20, FailedOver: 2, Failed: 4, Refused: map[string]int64{"STALE": 17, "NO_ACTIVE": 2}}
	if got := c.observe(counts, epoch.Add(999*time.Millisecond)); !reflect.DeepEqual(got, first) {
		t.Errorf("within the second: %+v", got)
	}
	got := c.observe(counts, epoch.Add(2*time.Second))
	want := &Rates{Active: 30, Copies: 20, Stale: 10, FailedOver: 1, Failed: 2, Refused: map[string]float64{"STALE": 5, "NO_ACTIVE": 1}, CopiesShare: 0.4, StaleShare: 0.2}
	if !reflect.DeepEqual(got.Rates, want) || !reflect.DeepEqual(got.Course, []Point{{Active: 30, Copies: 20, Refused: 8}}) {
		t.Errorf("%+v, course %+v, want %+v", got.Rates, got.Course, want)
	}
	for i := range 200 {
		got = c.observe(counts, epoch.Add(time.Duration(3+i)*time.Second))
	}
	if len(got.Course) != maxCourse || got.Rates.Active != 0 || len(got.Rates.Refused) != 0 || len(c.samples) > 8 {
		t.Errorf("when nothing comes any more: %+v, %d points, %d samples", got.Rates, len(got.Course), len(c.samples))
	}
	if got = c.observe(counts, epoch.Add(time.Hour)); got.Rates != nil || len(got.Course) != 0 {
		t.Errorf("after an hour in which nobody looked: %+v", got)
	}
}

// TestAPageKeepsItsCourse although later ones go on.
func TestAPageKeepsItsCourse(t *testing.T) {
	var c readCourse
	var shown []Reads
	for i := range 150 {
		shown = append(shown, c.observe(Counts{Active: int64(i * i)}, epoch.Add(time.Duration(i)*time.Second)))
	}
	for i, r := range shown {
		if n := len(r.Course); n > 0 && r.Course[n-1].Active != roundRate(float64(2*i-1)) {
			t.Errorf("second %d ends with %v", i, r.Course[n-1])
		}
	}
}
