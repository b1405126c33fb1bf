package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// MaxFields is how many fields a projection may name.
const MaxFields = 100

// Fields limits json objects to some of their fields.
type Fields struct {
	names  []string
	quoted [][]byte // as json strings, each with its colon
}

// ParseFields checks the names of fields. The error holds an *iqerr.InvalidError for each wrong one.
func ParseFields(names []string, info *metadata.StoreInfo) (*Fields, error) {
	if info.ValueSerde != serdeJSON {
		return nil, iqerr.Invalid("fields", names[0], fmt.Sprintf("needs json values; those of store %q are %q", info.Name, info.ValueSerde))
	}
	if len(names) > MaxFields {
		return nil, iqerr.Invalid("fields", fmt.Sprintf("%d names", len(names)), fmt.Sprintf("must be at most %d", MaxFields))
	}
	f := &Fields{names: names}
	seen := make(map[string]bool, len(names))
	var errs []error
	for i, name := range names {
		if seen[name] {
			errs = append(errs, iqerr.Invalid(fmt.Sprintf("fields[%d]", i), name, "is there twice"))
		}
		seen[name] = true
		quoted, err := json.Marshal(name)
		if err != nil {
			errs = append(errs, iqerr.Invalid(fmt.Sprintf("fields[%d]", i), name, err.Error()))
		}
		f.quoted = append(f.quoted, append(quoted, ':'))
	}
	return f, errors.Join(errs...)
}

// Project limits the value of a row: the fields in the order of the request, those that the object has, their own text
// unchanged. A deletion stays as it is. The error is an *iqerr.InvalidError with the row's key: the value is no json object.
func (f *Fields) Project(row *iqv1.Row) error {
	if row.GetDeleted() {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(row.GetValue(), &object); err != nil || object == nil {
		problem := "the value is not a json object"
		if err != nil {
			problem += ": " + err.Error()
		}
		return iqerr.Invalid("fields", f.names[0], fmt.Sprintf("cannot be taken of key %s in partition %d: %s",
			strconv.Quote(clip(row.GetKey())), row.GetPartition(), problem))
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range f.names {
		field, has := object[name]
		if !has {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(f.quoted[i])
		b.Write(field)
	}
	b.WriteByte('}')
	row.Value = b.Bytes()
	return nil
}
