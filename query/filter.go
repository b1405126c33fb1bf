package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds on filters.
const (
	// MaxFilterBytes is how long an expression may be.
	MaxFilterBytes = 4 << 10
	// MaxFilterCost is how much one evaluation may cost, in CEL's units: about one for each step and for each ten bytes of a
	// string that is looked at.
	MaxFilterCost = 100_000
	// maxFilterDepth is how deeply an expression may be nested.
	maxFilterDepth = 64
)

// Filter is a compiled CEL expression over the entries of a store. It may be used by many goroutines.
//
// Its variables are key (string: the key's bytes), value (the json value), timestamp_ms and partition (int), and, of a
// window or session store, window_start_ms and window_end_ms. As CEL defines it for json, numbers are doubles: compare them
// with any number, and compute with 1.0 and not 1. Whole numbers beyond 2^53, which a double would change, are ints.
type Filter struct {
	text      string
	program   cel.Program
	needValue bool
}

const (
	varKey       = "key"
	varValue     = "value"
	varTimestamp = "timestamp_ms"
	varPartition = "partition"
	varStart     = "window_start_ms"
	varEnd       = "window_end_ms"
)

// plainEnv and windowEnv are made once; making one costs far more than compiling an expression.
var (
	plainEnv  = sync.OnceValues(func() (*cel.Env, error) { return newEnv() })
	windowEnv = sync.OnceValues(func() (*cel.Env, error) {
		return newEnv(cel.Variable(varStart, cel.IntType), cel.Variable(varEnd, cel.IntType))
	})
)

func newEnv(more ...cel.EnvOption) (*cel.Env, error) {
	return cel.NewEnv(append([]cel.EnvOption{
		cel.Variable(varKey, cel.StringType), cel.Variable(varValue, cel.DynType),
		cel.Variable(varTimestamp, cel.IntType), cel.Variable(varPartition, cel.IntType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxFilterBytes), cel.ParserRecursionLimit(maxFilterDepth),
	}, more...)...)
}

// ParseFilter compiles an expression. The error is an *iqerr.InvalidError that has the place and the problem.
func ParseFilter(text string, info *metadata.StoreInfo) (*Filter, error) {
	bad := func(problem string) error { return iqerr.Invalid("selection.filter", text, problem) }
	if info.ValueSerde != serdeJSON {
		return nil, bad(fmt.Sprintf("needs json values; those of store %q are %q", info.Name, info.ValueSerde))
	}
	if len(text) > MaxFilterBytes {
		return nil, bad(fmt.Sprintf("has %d bytes, more than %d", len(text), MaxFilterBytes))
	}
	kind, err := KindOf(info)
	if err != nil {
		return nil, err
	}
	environment := plainEnv
	if kind == Window || kind == Session {
		environment = windowEnv
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("filter environment: %w", err)
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, bad(oneLine(err.Error()))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, bad("is of type " + t.String() + ", not bool")
	}
	program, err := env.Program(ast, cel.CostLimit(MaxFilterCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, bad(oneLine(err.Error()))
	}
	f := &Filter{text: text, program: program}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		f.needValue = f.needValue || ref.Name == varValue
	}
	return f, nil
}

// oneLine leaves the pictures out that CEL's messages have beneath their text.
func oneLine(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "|") {
			lines = append(lines, t)
		}
	}
	return strings.Join(lines, "; ")
}

// String is the expression.
func (f *Filter) String() string { return f.text }

// NeedsValue says whether the expression looks at values: if not, a scan of keys need not read them.
func (f *Filter) NeedsValue() bool { return f.needValue }

// Match says whether the expression is true of an entry. A deletion has the value null. The error is an
// *iqerr.InvalidError with the expression and the entry's key: a value that is not json, a field that is not there, a
// result that is not a bool, a cost above MaxFilterCost.
func (f *Filter) Match(row *iqv1.Row) (bool, error) {
	e := entry{row: row}
	out, _, err := f.program.Eval(&e)
	if e.err != nil {
		err = e.err
	}
	if err != nil {
		return false, f.fails(row, oneLine(err.Error()))
	}
	yes, ok := out.(types.Bool)
	if !ok {
		return false, f.fails(row, "the result is of type "+out.Type().TypeName()+", not bool")
	}
	return bool(yes), nil
}

func (f *Filter) fails(row *iqv1.Row, problem string) error {
	return iqerr.Invalid("selection.filter", f.text, fmt.Sprintf("cannot be evaluated for key %s in partition %d: %s",
		strconv.Quote(clip(row.GetKey())), row.GetPartition(), problem))
}

// maxKeyShown bounds a key in a text.
const maxKeyShown = 64

func clip(key []byte) string {
	if len(key) > maxKeyShown {
		return string(key[:maxKeyShown]) + "…"
	}
	return string(key)
}

// entry gives an evaluation the variables that it asks for; a value is decoded only then.
type entry struct {
	row     *iqv1.Row
	value   any
	decoded bool
	err     error
}

// ResolveName implements CEL's Activation.
func (e *entry) ResolveName(name string) (any, bool) {
	switch name {
	case varKey:
		return string(e.row.GetKey()), true
	case varTimestamp:
		return e.row.GetTimestampMs(), true
	case varPartition:
		return int64(e.row.GetPartition()), true
	case varStart:
		return e.row.GetStartMs(), true
	case varEnd:
		return e.row.GetEndMs(), true
	case varValue:
		if !e.decoded {
			e.decoded = true
			e.value, e.err = decodeJSON(e.row)
		}
		return e.value, true
	}
	return nil, false
}

// Parent implements CEL's Activation.
func (e *entry) Parent() interpreter.Activation { return nil }

func decodeJSON(row *iqv1.Row) (any, error) {
	if row.GetDeleted() {
		return types.NullValue, nil
	}
	d := json.NewDecoder(bytes.NewReader(row.GetValue()))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return types.NullValue, fmt.Errorf("the value is not json: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return types.NullValue, errors.New("the value is not json: something follows it")
	}
	return numbers(v), nil
}

// exactInDouble is the largest whole number below which a double changes none.
const exactInDouble = 1 << 53

// numbers makes CEL's numbers of json's, in place.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			v[k] = numbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && (n > exactInDouble || n < -exactInDouble) {
			return n
		}
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil && n > exactInDouble {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64) // out of range is infinite
		return f
	}
	return v
}
