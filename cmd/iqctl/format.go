package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

func formatNames() string { return strings.Join(topology.SerdeNames(), ", ") }

// formats are how a store's keys are typed and its values shown.
type formats struct {
	key, value shape.Format
}

// formats finds the serdes of a store: those of the flags, else those that the store says it has, for which it waits as
// long as the read may.
func (r *readFlags) formats(ctx context.Context, c *client.Client, store string) (formats, error) {
	if r.hex {
		if r.keyFormat != "" || r.valueFormat != "" {
			return formats{}, usagef("--hex: contradicts --key-format and --value-format; give one of them")
		}
		return formats{key: shape.Format{Serde: hexSerde{}}, value: shape.Format{Serde: hexSerde{}}}, nil
	}
	info := &iqv1.StoreInfo{}
	if r.keyFormat == "" || r.valueFormat == "" {
		var err error
		err = whileNotReady(ctx, r.wait, func() (iqv1.Reason, error) {
			info, err = findStore(ctx, c, store)
			return iqerr.ReasonOf(err), err
		})
		if err != nil {
			return formats{}, err
		}
	}
	key, err := serde("--key-format", r.keyFormat, info.GetKeySerde())
	if err != nil {
		return formats{}, err
	}
	value, err := serde("--value-format", r.valueFormat, info.GetValueSerde())
	return formats{key: key, value: value}, err
}

// key turns what the user typed as KEY into bytes, where no value will be shown.
func (r *readFlags) key(ctx context.Context, c *client.Client, store, text string) ([]byte, error) {
	f, err := r.keyFormats(ctx, c, store)
	if err != nil {
		return nil, err
	}
	return f.parseKey(text)
}

// keyFormats finds the key serde of a store, where no value will be shown.
func (r *readFlags) keyFormats(ctx context.Context, c *client.Client, store string) (formats, error) {
	keyOnly := readFlags{keyFormat: r.keyFormat, valueFormat: topology.NameBytes, wait: r.wait}
	if r.hex {
		keyOnly = readFlags{hex: true, keyFormat: r.keyFormat}
	}
	return keyOnly.formats(ctx, c, store)
}

// serde gives the format that a flag names, else the store's. A store may have a format of its application's own, which
// only its code can read: its bytes can still be typed and shown.
func serde(flag, given, stores string) (shape.Format, error) {
	if given != "" {
		s, err := topology.SerdeByName(given)
		if err != nil {
			return shape.Format{}, usagef("%s %q: must be one of %s", flag, given, formatNames())
		}
		return shape.Format{Serde: s}, nil
	}
	s, err := topology.SerdeByName(stores)
	if err != nil {
		return shape.Format{}, usagef("the store's format %q is not known here: give %s bytes, or another", stores, flag)
	}
	return shape.Format{Serde: s}, nil
}

func findStore(ctx context.Context, c *client.Client, store string) (*iqv1.StoreInfo, error) {
	all, err := c.Stores(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, &iqerr.NotReadyError{Waiting: "a node that tells of its stores: one does when it has found Kafka and its topics"}
	}
	unknown := &iqerr.StoreUnknownError{Store: store}
	for _, s := range all {
		if s.GetName() == store {
			return s, nil
		}
		unknown.Known = append(unknown.Known, s.GetName())
	}
	slices.Sort(unknown.Known)
	return nil, unknown
}

func (f formats) parseKey(text string) ([]byte, error) {
	key, err := f.key.Parse(text)
	if err != nil {
		return nil, usagef("KEY: %w", err)
	}
	return key, nil
}

// text shows a value. One that its format cannot read is shown as bytes, with a note: somebody who looks for a fault
// needs the bytes.
func (f formats) text(value []byte) (text, note string) {
	text, err := f.value.Format(value)
	if err == nil {
		return text, ""
	}
	return asBytes(value), fmt.Sprintf("the value is %v; shown as bytes", err)
}

func asBytes(value []byte) string {
	text, _ := shape.Bytes().Format(value) // any bytes can be written so
	return text
}
