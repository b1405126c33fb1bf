package topology

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestNumberTextIsReadExactlyOrSkippedWithItsReason(t *testing.T) {
	const big53 = "9007199254740993" // 2^53 + 1, which no double holds
	for _, c := range []struct {
		text    string
		int64s  int64
		intSkip string
		double  float64
		dblSkip string
	}{
		{text: "0"},
		{text: "-0", double: math.Copysign(0, -1)},
		{text: "+7", int64s: 7, double: 7},
		{text: " 42\t", int64s: 42, double: 42},
		{text: "007", int64s: 7, double: 7},
		{text: big53, int64s: 9007199254740993, double: 9007199254740992},
		{text: "9223372036854775807", int64s: math.MaxInt64, double: 9223372036854775807},
		{text: "-9223372036854775808", int64s: math.MinInt64, double: -9223372036854775808},
		{text: "9223372036854775808", intSkip: SkipNotAnInteger, double: 9223372036854775808},
		{text: "-9223372036854775809", intSkip: SkipNotAnInteger, double: -9223372036854775809},
		{text: "99999999999999999999", intSkip: SkipNotAnInteger, double: 1e20},
		{text: "5.0", int64s: 5, double: 5},
		{text: "1e3", int64s: 1000, double: 1000},
		{text: "1.5", intSkip: SkipNotAnInteger, double: 1.5},
		{text: "1e300", intSkip: SkipNotAnInteger, double: 1e300},
		{text: "NaN", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "-inf", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "1e999", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "-", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "true", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "0x10", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "1_000", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
		{text: "1,5", intSkip: SkipNotANumber, dblSkip: SkipNotANumber},
	} {
		data, skip := NumberInt64.number([]byte(c.text))
		if skip != c.intSkip || skip == "" && toInt64(data) != c.int64s {
			t.Errorf("int64 %q is %x, skip %q, want %d, skip %q", c.text, data, skip, c.int64s, c.intSkip)
		}
		data, skip = NumberDouble.number([]byte(c.text))
		if skip != c.dblSkip || skip == "" && math.Float64bits(toDouble(data)) != math.Float64bits(c.double) {
			t.Errorf("double %q is %x, skip %q, want %v, skip %q", c.text, data, skip, c.double, c.dblSkip)
		}
	}
}

type operandAt struct {
	n  int64
	ts int64
}

// twin computes an aggregate from all operands at once, with arbitrary precision.
func twin(op Op, all []operandAt) string {
	sum := new(big.Int)
	least, most := all[0].n, all[0].n
	first, latest := all[0], all[0]
	for i, o := range all {
		sum.Add(sum, big.NewInt(o.n))
		least, most = min(least, o.n), max(most, o.n)
		if i > 0 && o.ts < first.ts {
			first = o
		}
		if i > 0 && o.ts >= latest.ts {
			latest = o
		}
	}
	switch op {
	case OpCount:
		return strconv.Itoa(len(all))
	case OpSum:
		return sum.String()
	case OpMin:
		return strconv.FormatInt(least, 10)
	case OpMax:
		return strconv.FormatInt(most, 10)
	case OpAverage:
		mean := float64(sum.Int64()) / float64(len(all))
		text, _ := json.Marshal(mean)
		return `{"sum":` + sum.String() + `,"count":` + strconv.Itoa(len(all)) + `,"average":` + string(text) + `}`
	case OpLatest:
		return strconv.FormatInt(latest.n, 10)
	case OpFirst:
		return strconv.FormatInt(first.n, 10)
	case OpNone:
	}
	return ""
}

func TestAggregatesMatchASlowPassOverRandomRecords(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 300 {
		limit := []int64{3, 1000, 1 << 40, 1 << 53}[round%4]
		states := map[Op]state{}
		var all []operandAt
		for range 1 + rng.IntN(40) {
			o := operandAt{n: rng.Int64N(2*limit) - limit, ts: rng.Int64N(20)}
			all = append(all, o)
			for _, op := range ops() {
				next, err := step(op, NumberInt64, states[op], encodeInt64(o.n), o.ts)
				if err != nil {
					t.Fatalf("seed %d: %s: %v", seed, op, err)
				}
				states[op] = next
				got := string(next.value)
				if op != OpAverage {
					got = strconv.FormatInt(toInt64(next.value), 10)
				}
				if want := twin(op, all); got != want {
					t.Fatalf("seed %d: %s of %v is %s, want %s", seed, op, all, got, want)
				}
			}
		}
	}
}

// Doubles are added one after another, in the order of the records.
func TestAggregatesOfDoublesAddInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var sum, least, most float64
	states := map[Op]state{}
	for i := range 2000 {
		v := rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12)))
		if i == 0 {
			sum, least, most = v, v, v
		} else {
			sum, least, most = sum+v, min(least, v), max(most, v)
		}
		for _, op := range []Op{OpSum, OpMin, OpMax, OpAverage} {
			next, err := step(op, NumberDouble, states[op], encodeDouble(v), 1)
			if err != nil {
				t.Fatal(err)
			}
			states[op] = next
		}
		var avg averageState
		if err := json.Unmarshal(states[OpAverage].value, &avg); err != nil {
			t.Fatal(err)
		}
		avgSum, err := avg.Sum.Float64()
		if err != nil {
			t.Fatal(err)
		}
		if toDouble(states[OpSum].value) != sum || toDouble(states[OpMin].value) != least || toDouble(states[OpMax].value) != most ||
			avgSum != sum || avg.Count != int64(i+1) || avg.Average != sum/float64(i+1) {
			t.Fatalf("after %d: sum %v min %v max %v average %+v, want %v %v %v", i+1, toDouble(states[OpSum].value),
				toDouble(states[OpMin].value), toDouble(states[OpMax].value), avg, sum, least, most)
		}
	}
}

func TestSumsNeverWrapAround(t *testing.T) {
	for _, c := range []struct {
		a, b int64
		ok   bool
	}{
		{math.MaxInt64, 0, true},
		{math.MaxInt64, 1, false},
		{math.MaxInt64, -1, true},
		{math.MinInt64, -1, false},
		{math.MinInt64, 1, true},
		{math.MinInt64, math.MaxInt64, true},
		{math.MinInt64, math.MinInt64, false},
		{0, 0, true},
	} {
		for _, op := range []Op{OpSum, OpAverage} {
			one, err := step(op, NumberInt64, state{}, encodeInt64(c.a), 1)
			if err != nil {
				t.Fatal(err)
			}
			_, err = step(op, NumberInt64, one, encodeInt64(c.b), 1)
			if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrOverflow) {
				t.Errorf("%s of %d and %d: %v, want ok %v", op, c.a, c.b, err, c.ok)
			}
		}
	}
	big, err := step(OpSum, NumberDouble, state{}, encodeDouble(math.MaxFloat64), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := step(OpSum, NumberDouble, big, encodeDouble(math.MaxFloat64), 1); err == nil {
		t.Error("a sum of doubles becomes infinite without an error")
	}
}

func TestStateOfAnotherFormatIsAnErrorNotACrash(t *testing.T) {
	for _, op := range []Op{OpCount, OpSum, OpMin, OpMax, OpAverage} {
		for _, number := range []NumberType{NumberInt64, NumberDouble} {
			for _, old := range []string{"", "x", "123456789", `{"sum":"a"}`, `{"sum":1.5e400}`, `[]`} {
				if next, err := step(op, number, state{value: []byte(old)}, encodeInt64(1), 1); err == nil {
					t.Errorf("%s %s: a stored %q becomes %q", op, number, old, next.value)
				}
			}
		}
	}
}
